"""Python scripts that run where some packages cannot be imported and no Java is to be found."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.stack_project import StackProject

BLOCK = """\
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
"""
READING = ("pyspark", "py4j", "airflow", "confluent_kafka", "delta")
DECLARING = (*READING, "duckdb", "deltalake", "pyarrow", "pandas", "datasketches")


def command_line(*arguments: str) -> str:
    return f"import sys\nsys.argv = {['hourline', *arguments]!r}\nfrom hourline.cli import main\nmain()"


def without(
    names: tuple[str, ...], script: str, project: StackProject | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run ``script`` where ``names`` cannot be imported and no Java is to be found."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": str(Path(sys.executable).parent)
    }
    environment |= {"KAFKA": project.kafka} if project else {}
    command = [sys.executable, "-c", BLOCK.format(names=names) + script]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
