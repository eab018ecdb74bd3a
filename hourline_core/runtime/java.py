"""Finds the Java that runs Spark and the broker.

Set-up checks with ``python -m hourline_core.runtime.java`` that a suitable one exists.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from hourline_core.child_environment import child_environment
from hourline_core.errors import HourlineError, SetupError

OLDEST = 17
_WHAT_TO_DO = f"install Java {OLDEST} or newer (for example Eclipse Temurin) and set JAVA_HOME to its folder"


@cache
def find_java() -> Path:
    """The ``java`` to run: the one in JAVA_HOME if it is set, else the one on PATH. Spark uses the same order.

    The result is cached for the process. Raises SetupError when there is no Java, it does not run, or it is older than
    Java 17.
    """
    java = _locate()
    version = _feature(java, _version(java))
    if version < OLDEST:
        raise SetupError(f"{java} is Java {version}, but Hourline needs Java {OLDEST} or newer; {_WHAT_TO_DO}")
    return java


def java_build() -> str:
    """Version, build and vendor of that Java, without the mode that its options select.

    Raises SetupError as ``find_java``.
    """
    return "\n".join(
        line for line in _version(find_java()).splitlines() if " version " in line or "Runtime Environment" in line
    )


def _locate() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise SetupError(
                f"JAVA_HOME is '{home}', but there is no {java}; set it to the folder of a Java {OLDEST} or newer"
            )
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise SetupError(f"there is no Java: JAVA_HOME is not set and no 'java' is on PATH; {_WHAT_TO_DO}")
    return Path(on_path)


@cache
def _version(java: Path) -> str:
    """The output of ``java -version``."""
    try:
        answer = subprocess.run(
            [java, "-version"],
            env=child_environment(),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{java} does not run: {error}; {_WHAT_TO_DO}") from error
    output = answer.stderr + answer.stdout
    if answer.returncode != 0:
        raise _no_version(java, answer.returncode, output)
    return output


def _feature(java: Path, output: str) -> int:
    """The feature release: 8 for ``1.8.0_392``, 17 for ``17.0.15``."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        raise _no_version(java, 0, output)
    return int(match[1])


def _no_version(java: Path, status: int, output: str) -> SetupError:
    """The error for output without a version. The 'java' stub of macOS prints such output if no Java is installed. A
    Java that gets no memory says so in its second line.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("Picked up ")]
    printed = " / ".join(lines[:2]) or "nothing"
    return SetupError(f"'{java} -version' ended with status {status} and printed '{printed}'; {_WHAT_TO_DO}")


def main() -> int:
    try:
        find_java()
    except HourlineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
