"""Class-data sharing (JEP 350): the classes of Spark and of Kafka, loaded and verified once by set-up, and mapped into
memory by every Java after it.

Without it, a quarter of the time in which Spark starts and answers is spent on reading 20,000 classes.
`class_training.py` makes the archives, which belong to this environment and its Java, as the jars' paths and dates,
their order and Java's build are part of them. Java checks that itself: with other jars, or another class path, it
leaves the archive aside, and starts take as long as without one.
"""

import hashlib
import os
import sys
from pathlib import Path

from hourline_core.runtime.jars import JarSet
from hourline_core.runtime.java import java_build


def class_archive(which: JarSet) -> Path:
    """Where the classes of one set of jars are kept for the Java at hand, if they are."""
    return Path(sys.prefix) / "classes" / f"{which}-{hashlib.sha256(java_build().encode()).hexdigest()[:12]}.jsa"


def sharing_options(which: JarSet) -> list[str]:
    """What tells Java to use them; it would print a warning, on stdout, for each archive that it leaves aside."""
    archive = class_archive(which)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if os.access(archive, os.R_OK) else []
