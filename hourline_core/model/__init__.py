"""Declarations: the settings, sources and metrics of a project, as frozen pydantic models. Imports no engine."""

from hourline_core.model.event_time import EventTime
from hourline_core.model.expectation import Expectation, History, Severity
from hourline_core.model.fields import Field
from hourline_core.model.identity import (
    DeclaredMetric,
    declaration_hash,
    derived_of,
    expectations_hash,
    user_measures_of,
)
from hourline_core.model.loading import load_project, load_settings
from hourline_core.model.lookup import Lookup
from hourline_core.model.measure import Measure
from hourline_core.model.measure_text import MeasureKind
from hourline_core.model.metric import Metric
from hourline_core.model.project import Project
from hourline_core.model.schedule import AirflowSettings, ScheduleSettings
from hourline_core.model.schema import json_schema
from hourline_core.model.serving import ServeSettings
from hourline_core.model.settings import BatchSettings, KafkaSettings, Settings, SparkSettings, SpeedSettings
from hourline_core.model.sink import Sink
from hourline_core.model.source import Source
from hourline_core.model.stored import from_stored, to_stored
from hourline_core.model.user_measure import UserMeasure
from hourline_core.model.volume import Volume

__all__ = [
    "AirflowSettings",
    "BatchSettings",
    "DeclaredMetric",
    "EventTime",
    "Expectation",
    "Field",
    "History",
    "KafkaSettings",
    "Lookup",
    "Measure",
    "MeasureKind",
    "Metric",
    "Project",
    "ScheduleSettings",
    "ServeSettings",
    "Settings",
    "Severity",
    "Sink",
    "Source",
    "SparkSettings",
    "SpeedSettings",
    "UserMeasure",
    "Volume",
    "declaration_hash",
    "derived_of",
    "expectations_hash",
    "from_stored",
    "json_schema",
    "load_project",
    "load_settings",
    "to_stored",
    "user_measures_of",
]
