"""Class-data sharing (JEP 350): set-up loads and verifies the classes of Spark and Kafka once, for all later starts.

Without it, Spark spends a quarter of its start on reading 20,000 classes. `class_training.py` makes the archives. They
are valid for this environment and its Java only, since they depend on Java's build and on the jars' paths, dates and
order. Java checks this: with another class path it ignores the archive, and starts as slowly as without one.
"""

import hashlib
import os
import sys
from pathlib import Path

from hourline_core.runtime.jars import JarSet
from hourline_core.runtime.java import java_build


def class_archive(which: JarSet) -> Path:
    """The path of the class archive of one set of jars for the current Java. It need not exist."""
    return Path(sys.prefix) / "classes" / f"{which}-{hashlib.sha256(java_build().encode()).hexdigest()[:12]}.jsa"


def sharing_options(which: JarSet) -> list[str]:
    """The Java options that use the archive if it exists, without Java's warning on stdout if it does not fit."""
    archive = class_archive(which)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if os.access(archive, os.R_OK) else []
