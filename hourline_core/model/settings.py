"""The settings of a project: ``hourline.yaml``. All of them have a default that works on one machine."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import pydantic
from pydantic import AfterValidator, model_validator

from hourline_core.model.base import Declaration, refuse, shown
from hourline_core.model.kafka_options import ALLOWED_OPTIONS, KafkaOption
from hourline_core.model.schedule import AirflowSettings, ScheduleSettings
from hourline_core.model.serving import ServeSettings
from hourline_core.model.times import Duration

_SERVERS = re.compile(r"([^\s:,]+|\[[0-9a-fA-F:]+\]):\d{1,5}(\s*,\s*([^\s:,]+|\[[0-9a-fA-F:]+\]):\d{1,5})*", re.ASCII)


def _bootstrap(text: str) -> str:
    if not _SERVERS.fullmatch(text.strip()):
        raise refuse(f"got {shown(text)}, allowed is host:port, or several of them with commas between")
    return text.replace(" ", "")


def _memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[mg]", text, re.ASCII):
        raise refuse(f"got {shown(text)}, allowed is a size such as 512m or 2g")
    return text


def _spark_key(name: str) -> str:
    if not name.startswith("spark."):
        raise refuse(f"got the key {shown(name)}, allowed are Spark's own, which start with 'spark.'")
    return name


class KafkaSettings(Declaration):
    """Where the events come from."""

    bootstrap: Annotated[str, AfterValidator(_bootstrap)] | None = None
    """host:port of a Kafka that is there; left out, Hourline runs one of its own in the workspace."""

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    """The port of Hourline's own Kafka; a free one, if left out."""

    options: dict[KafkaOption, str] = pydantic.Field(
        default={}, repr=False, json_schema_extra={"propertyNames": {"enum": [*sorted(ALLOWED_OPTIONS)]}}
    )
    """Client options by librdkafka's names, such as security.protocol and sasl.username. Keep secrets in the
    environment: `${NAME}`.
    """

    @model_validator(mode="after")
    def _one_kafka(self) -> Self:
        if self.bootstrap is not None and self.port is not None:
            raise refuse(
                "got both bootstrap and port, allowed is one: port is for Hourline's own Kafka, bootstrap for another",
                "port",
            )
        return self


class SparkSettings(Declaration):
    """Where Spark runs."""

    master: Annotated[str, pydantic.Field(min_length=1)] = "local[*]"
    """Spark's master: local[*], spark://host:7077, …"""

    driver_memory: Annotated[str, AfterValidator(_memory)] = "1g"
    """The heap of the driver, such as 512m or 2g."""

    config: dict[Annotated[str, AfterValidator(_spark_key)], str] = pydantic.Field(default={}, repr=False)
    """Further Spark configuration: `spark.…: value`."""


class SpeedSettings(Declaration):
    """The speed layer."""

    max_records_per_batch: Annotated[int, pydantic.Field(ge=1)] = 100_000
    """At most so many records of a source in one micro-batch."""

    trigger: Duration = timedelta(0)
    """The least time between the starts of two micro-batches; 0s starts each as soon as the last one ended."""


class BatchSettings(Declaration):
    """The batch layer."""

    hours_per_job: Annotated[int, pydantic.Field(ge=1)] = 168
    """At most so many hours are recomputed, audited and published at once."""

    answers_kept: Duration = timedelta(days=7)
    """So long, at least, an answer that was final can be repeated; `hourline maintain` deletes what only older ones
    need.
    """

    reports_kept: Duration = timedelta(days=90)
    """So long, at least, what audits have found is kept, and the notes of interrupted backfills; `hourline maintain`
    deletes what is older.
    """


class Settings(Declaration):
    """The settings of a project."""

    name: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """The project's name; that of its folder, if left out."""

    workspace: Path = Path(".hourline")
    """The folder for tables, checkpoints, logs and the embedded Kafka; relative to the project."""

    tables: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """The root of the tables, a folder or the URI of an object store such as s3://bucket/prefix; `tables` in the
    workspace, if left out.
    """

    storage_options: dict[str, str] = pydantic.Field(default={}, repr=False)
    """Options and credentials of the object store. Keep secrets in the environment: `${NAME}`."""

    kafka: KafkaSettings = pydantic.Field(default_factory=KafkaSettings)
    """Where the events come from."""

    spark: SparkSettings = pydantic.Field(default_factory=SparkSettings)
    """Where Spark runs."""

    speed: SpeedSettings = pydantic.Field(default_factory=SpeedSettings)
    """The speed layer."""

    batch: BatchSettings = pydantic.Field(default_factory=BatchSettings)
    """The batch layer."""

    schedule: ScheduleSettings = pydantic.Field(default_factory=ScheduleSettings)
    """When Airflow recomputes."""

    airflow: AirflowSettings = pydantic.Field(default_factory=AirflowSettings)
    """The Airflow that `hourline airflow up` starts."""

    serve: ServeSettings = pydantic.Field(default_factory=ServeSettings)
    """The HTTP server that `hourline serve` runs."""
