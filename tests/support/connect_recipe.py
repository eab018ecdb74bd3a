"""What docs/guides/kafka-connect.md declares: the files of a project, and the connectors."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tests.support.shown import ROOT, blocks

GUIDE = ROOT / "docs/guides/kafka-connect.md"

Connectors = dict[str, dict[str, str]]
"""By name, their settings."""


def declarations() -> dict[str, str]:
    """The files of the project, by name."""
    text = "\n".join(blocks(GUIDE, "yaml"))
    parts = re.split(r"^# (\w+/\w+\.yaml)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def connectors() -> Connectors:
    """The connectors as they stand there."""
    found = (json.loads(block) for block in blocks(GUIDE, "json"))
    return {config["name"]: config for config in found}


def moved(given: Connectors, place: Mapping[str, str], file: Path) -> Connectors:
    """The same with another PostgreSQL, at ``place``, and another file."""
    here = {
        "file": str(file),
        **{"database.hostname": place["host"], "database.port": place["port"], "database.dbname": place["dbname"]},
        **{"database.user": place["user"], "database.password": place["password"]},
        "connection.url": f"jdbc:postgresql://{place['host']}:{place['port']}/{place['dbname']}",
        **{"connection.username": place["user"], "connection.password": place["password"]},
    }
    return {
        name: {**config, **{one: value for one, value in here.items() if one in config}}
        for name, config in given.items()
    }
