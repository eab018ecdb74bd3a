"""The tables of the README name every key of a declaration and of the settings."""

import re

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
from tests.support.readme import README


@pytest.mark.parametrize(
    ("model", "prefix"),
    [
        (Source, ""),
        (EventTime, ""),
        (Field, ""),
        (Metric, ""),
        (History, ""),
        (Settings, ""),
        (KafkaSettings, "kafka."),
        (SparkSettings, "spark."),
        (SpeedSettings, "speed."),
        (BatchSettings, "batch."),
        (ScheduleSettings, "schedule."),
        (AirflowSettings, "airflow."),
        (ServeSettings, "serve."),
    ],
)
def test_the_tables_name_every_key(model: type[pydantic.BaseModel], prefix: str) -> None:
    sections = {"kafka", "spark", "speed", "batch", "schedule", "airflow", "serve"}  # their keys have rows of their own
    missing = [
        key
        for key in model.model_fields
        if key not in sections and not re.search(rf"`[^`\n]*\b{re.escape(prefix + key)}\b[^`\n]*`", README)
    ]
    assert not missing
