"""Class-data sharing (JEP 350): the classes of Spark and of Kafka, loaded and verified once by set-up, and mapped into memory by every Java after it.

Without it, a third of the time in which Spark starts is spent on reading 20,000 classes. `class_training.py` makes the archives, which belong to
this environment, as the jars' paths and dates are part of them. Java itself checks that, and its own version; an archive that does not fit is left
aside, and the start takes as long as without one.
"""

import sys
from pathlib import Path

from infra.jars import JarSet


def class_archive(which: JarSet) -> Path:
    """Where the classes of one set of jars are kept, if they are."""
    return Path(sys.prefix) / "classes" / f"{which}.jsa"


def sharing_options(which: JarSet) -> list[str]:
    """What tells Java to use them."""
    archive = class_archive(which)
    # Java prints a warning, on stdout, for each archive that it does not use.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"] if archive.exists() else []
