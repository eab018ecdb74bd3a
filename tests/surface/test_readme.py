"""The README shows nothing that is not shown to be so elsewhere, and the reference names every key in its section."""

import pydantic
import pytest

from hourline_core.model import (
    AirflowSettings,
    BatchSettings,
    EventTime,
    Field,
    History,
    KafkaSettings,
    Metric,
    ScheduleSettings,
    ServeSettings,
    Settings,
    Source,
    SparkSettings,
    SpeedSettings,
)
from tests.support.shown import README, ROOT, TUTORIAL, commands

REFERENCE = (ROOT / "docs/reference/settings-and-declarations.md").read_text(encoding="utf-8")


def test_the_readme_is_a_part_of_the_tutorial_which_tests_run() -> None:
    tutorial = commands(TUTORIAL)
    shown = list(commands(README))
    assert len(shown) > 10
    for step in shown:
        assert step in tutorial, step  # which also moves on, so that the order is the same


@pytest.mark.parametrize(
    ("model", "section"),
    [
        (Source, "Sources"),
        (EventTime, "Event time"),
        (Field, "Fields"),
        (Metric, "Metrics"),
        (History, "History"),
        (Settings, "Settings"),
        (KafkaSettings, "kafka"),
        (SparkSettings, "spark"),
        (SpeedSettings, "speed"),
        (BatchSettings, "batch"),
        (ScheduleSettings, "schedule"),
        (AirflowSettings, "airflow"),
        (ServeSettings, "serve"),
    ],
)
def test_the_reference_names_every_key(model: type[pydantic.BaseModel], section: str) -> None:
    text = REFERENCE.partition(f"# {section}\n")[2].partition("\n#")[0]
    prefix = f"{section}." if section.islower() else ""
    assert [key for key in model.model_fields if f"| `{prefix}{key}` |" not in text] == []
