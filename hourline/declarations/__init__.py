"""Declarations: the settings, sources and metrics of a project, as frozen pydantic models. Imports no engine."""

from hourline.declarations.event_time import EventTime
from hourline.declarations.expectation import Expectation, History, Severity, expectations_hash
from hourline.declarations.fields import Field
from hourline.declarations.identity import DeclaredMetric, declaration_hash, derived_of
from hourline.declarations.loading import load_project
from hourline.declarations.measure import Measure, MeasureKind
from hourline.declarations.metric import Metric
from hourline.declarations.project import Project
from hourline.declarations.schedule import AirflowSettings, ScheduleSettings
from hourline.declarations.schema import json_schema
from hourline.declarations.serving import ServeSettings
from hourline.declarations.settings import BatchSettings, KafkaSettings, Settings, SparkSettings, SpeedSettings
from hourline.declarations.source import Source
from hourline.declarations.stored import from_stored, to_stored

__all__ = [
    "AirflowSettings",
    "BatchSettings",
    "DeclaredMetric",
    "EventTime",
    "Expectation",
    "Field",
    "History",
    "KafkaSettings",
    "Measure",
    "MeasureKind",
    "Metric",
    "Project",
    "ScheduleSettings",
    "ServeSettings",
    "Settings",
    "Severity",
    "Source",
    "SparkSettings",
    "SpeedSettings",
    "declaration_hash",
    "derived_of",
    "expectations_hash",
    "from_stored",
    "json_schema",
    "load_project",
    "to_stored",
]
