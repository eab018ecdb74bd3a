"""What cannot be done where the data is, and could at the driver, is one sentence."""

import os
from pathlib import Path

import pytest

from hourline_core.errors import SetupError
from speed_layer.spark_session import speed_session
from tests.support import observed
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[1]"}\n',
    "sources/visits.yaml": "topic: errors_of_tasks\nfields: {x: int, at: timestamp}\nevent_time: at\npartitions: 1\n",
    "metrics/spreads.yaml": "source: visits\nmeasures: {spread: spread(x)}\n",
    "measures/spread.py": f"import os\n\nif os.getpid() != {os.getpid()}:\n    import installed_at_the_driver\n{SPREAD}",
}


def test_a_class_that_only_the_driver_can_import_is_one_sentence(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {})
    project.send("visits", [{"x": 1, "at": "2024-05-06T20:15:00Z"}])
    with speed_session(project.project) as spark, pytest.raises(SetupError) as raised:
        observed.drain(spark, project.project, kafka)
    said = str(raised.value)
    assert said == (
        "the measure 'spread' cannot be used here: measures/spread.py:4: ModuleNotFoundError: No module named "
        "'installed_at_the_driver'"
    )
    assert project.table("progress", "visits") == [], "nothing of it counts"
