"""The commands of a Kafka broker's Java. Each runs in the folder of ``server.properties``, which has the data below it.

Both raise SetupError without Java or the jars.
"""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from hourline_core.child_environment import home_folder, user_name
from hourline_core.java_options import SAME_EVERYWHERE, of_user
from hourline_core.runtime.class_archives import sharing_options
from hourline_core.runtime.jars import fetch_jars
from hourline_core.runtime.java import find_java

_LOG_CONFIGURATION = Path(__file__).with_name("broker_log4j2.properties")


def start_command(heap: str = "512m", options: Sequence[str] = ()) -> list[str]:
    """The command that runs the broker. ``options`` are for Java."""
    return [*_java(heap, options), "kafka.Kafka", "server.properties"]


def format_command() -> list[str]:
    """The command that prepares the folder of the data, unless that was done before. The cluster gets a new id."""
    arguments = ("format", "--ignore-formatted", "--config=server.properties", f"--cluster-id={new_id()}")
    return [*_java("128m"), "kafka.tools.StorageTool", *arguments]


def new_id() -> str:
    """A new id in Kafka's notation."""
    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


def _java(heap: str, options: Sequence[str] = ()) -> list[str]:
    jars = os.pathsep.join(map(str, fetch_jars("broker")))
    logging = f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"
    own = ["-XX:+UseSerialGC", f"-Xmx{heap}", logging, *sharing_options("broker"), *options]
    same = [*SAME_EVERYWHERE, *of_user(user_name(), home_folder())]
    return [str(find_java()), *own, *same, "-cp", jars]
