"""The settings of a project: ``hourline.yaml``. Each has a default that works on one machine."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import pydantic
from pydantic import AfterValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.finding_bounds import SpeedFindings
from hourline_core.model.kafka_options import ALLOWED_OPTIONS, KafkaOption, check_together, check_values
from hourline_core.model.registry import RegistrySettings
from hourline_core.model.schedule import AirflowSettings, ScheduleSettings
from hourline_core.model.serving import ServeSettings
from hourline_core.model.times import Duration

_SERVERS = re.compile(r"([^\s:,]+|\[[0-9a-fA-F:]+\]):\d{1,5}(\s*,\s*([^\s:,]+|\[[0-9a-fA-F:]+\]):\d{1,5})*", re.ASCII)


def _bootstrap(text: str) -> str:
    if not _SERVERS.fullmatch(text.strip()):
        raise refuse(f"got {describe(text)}, allowed is host:port, or several of them with commas between")
    return text.replace(" ", "")


def _memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[mg]", text, re.ASCII):
        raise refuse(f"got {describe(text)}, allowed is a size such as 512m or 2g")
    return text


def bytes_of(size: str) -> int:
    """The number of bytes of a size such as `512m` or `2g`."""
    return int(size[:-1]) << (20 if size.endswith("m") else 30)


def _spark_key(name: str) -> str:
    if not name.startswith("spark."):
        raise refuse(f"got the key {describe(name)}, allowed are Spark's own, which start with 'spark.'")
    return name


class KafkaSettings(Declaration):
    """The Kafka that provides the events."""

    bootstrap: Annotated[str, AfterValidator(_bootstrap)] | None = None
    """The address of your Kafka: host:port, or several of them with commas between. If left out, Hourline runs a Kafka
    of its own in the workspace.
    """

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    """The port of Hourline's own Kafka. If left out, a free port is chosen at each start."""

    options: Annotated[dict[KafkaOption, str], AfterValidator(check_values)] = pydantic.Field(
        default={}, repr=False, json_schema_extra={"propertyNames": {"enum": [*sorted(ALLOWED_OPTIONS)]}}
    )
    """Options of the Kafka clients, by librdkafka's names, such as `security.protocol` and `sasl.username`. The options
    of security and reconnecting, and `client.rack`, are allowed. Files are PEM, and relative to the project. Keep
    secrets in the environment: `${NAME}`.
    """

    @model_validator(mode="after")
    def _check_port(self) -> Self:
        if self.bootstrap is not None and self.port is not None:
            raise refuse(
                "got both bootstrap and port, allowed is one: port is for Hourline's own Kafka, bootstrap for another",
                "port",
            )
        return self

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        check_together(self.options)
        return self


class SparkSettings(Declaration):
    """The options of Spark."""

    master: Annotated[str, pydantic.Field(min_length=1)] = "local[*]"
    """Spark's master, such as `local[*]` or `spark://host:7077`. With `local[*]` or `local[4]`, a failed task is tried
    four times, as on a cluster. `local[4,1]` sets another number.
    """

    driver_memory: Annotated[str, AfterValidator(_memory)] = "1g"
    """The maximum heap size of Spark's driver, such as `512m` or `2g`."""

    worker_memory: Annotated[str, AfterValidator(_memory)] | None = None
    """The maximum memory of DuckDB in all of Spark's Python workers of a machine, such as `512m` or `2g`. Each core has
    an equal part of it. What does not fit goes to files. Without it, 40 % of the machine's memory.
    """

    config: dict[Annotated[str, AfterValidator(_spark_key)], str] = pydantic.Field(default={}, repr=False)
    """Further options of Spark: `spark.…: value`."""


class SpeedSettings(Declaration):
    """The size and pace of micro-batches in the speed layer."""

    max_records_per_batch: Annotated[int, pydantic.Field(ge=1)] = 400_000
    """The maximum number of records of a source in one micro-batch. Exploded records have on average at most so many
    events.
    """

    max_bytes_per_batch: Annotated[str, AfterValidator(_memory)] = "128m"
    """The maximum size of the records of a source in one micro-batch, such as `64m` or `1g`, if they are as large as
    those before on average. The first micro-batch after a start has at most 1,000 records.
    """

    ids_in_memory: Annotated[str, AfterValidator(_memory)] = "1g"
    """The maximum memory for the ids of recent hours, 8 bytes for each, such as `256m` or `4g`. Sources with an `id`
    get equal parts of it. Ids beyond it are in files on the workspace's disk. The files have no name, and are gone when
    the speed layer ends.
    """

    trigger: Duration = timedelta(0)
    """The minimum time between the starts of two micro-batches. With `0s`, each starts when the last one has ended."""

    fsync: bool = True
    """Whether a micro-batch is written to disk before it is finished, so that it survives the loss of power. If not,
    the operating system does so when it likes. After a power cut, the micro-batches that are lost are read again from
    Kafka, which must still have their records. Publications are on disk in any case.
    """


class BatchSettings(Declaration):
    """The size of batch jobs, and how long old versions are kept."""

    hours_per_job: Annotated[int, pydantic.Field(ge=1)] | None = None
    """The maximum number of hours that one job recomputes, audits and publishes at once. Without it, a job has 168
    hours (24 in a backfill), or more as long as it has at most 5,000,000 events and 4,000 hours × metrics. With or
    without it, a job of more than one hour has at most 25,000,000 events, over all metrics.
    """

    answers_kept: Duration = timedelta(days=7)
    """The minimum time for which `--as-of` can repeat an old answer over final hours. `hourline maintain` deletes the
    files that only older answers need.
    """

    reports_kept: Duration = timedelta(days=90)
    """The minimum time for which findings of audits and notes of interrupted backfills are kept. `hourline maintain`
    deletes older findings and notes.
    """


class Settings(Declaration):
    """The settings of a project, in `hourline.yaml`. All of them are optional."""

    name: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """The project's name. If left out, the name of its folder."""

    workspace: Path = Path(".hourline")
    """The folder for tables, checkpoints, logs and the embedded Kafka, relative to the project. `--workspace` and
    `HOURLINE_WORKSPACE` override it.
    """

    tables: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """The root of the tables: a folder, or the URI of an object store such as `s3://bucket/prefix`. If left out, the
    folder `tables` in the workspace.
    """

    storage_options: dict[str, str] = pydantic.Field(default={}, repr=False)
    """Options and credentials of the object store, by the names of delta-rs. Keep secrets in the environment:
    `${NAME}`.
    """

    kafka: KafkaSettings = pydantic.Field(default_factory=KafkaSettings)
    """The Kafka that provides the events."""

    registry: RegistrySettings | None = None
    """The schema registry. Sources whose `format` has `registry: true` need it."""

    spark: SparkSettings = pydantic.Field(default_factory=SparkSettings)
    """The options of Spark."""

    speed: SpeedSettings = pydantic.Field(default_factory=SpeedSettings)
    """The size and pace of micro-batches in the speed layer."""

    findings: SpeedFindings = pydantic.Field(default_factory=SpeedFindings)
    """What opens a finding about the speed layer."""

    batch: BatchSettings = pydantic.Field(default_factory=BatchSettings)
    """The size of batch jobs, and how long old versions are kept."""

    schedule: ScheduleSettings = pydantic.Field(default_factory=ScheduleSettings)
    """When Airflow recomputes hours and maintains tables."""

    airflow: AirflowSettings = pydantic.Field(default_factory=AirflowSettings)
    """The Airflow that `hourline airflow up` starts."""

    serve: ServeSettings = pydantic.Field(default_factory=ServeSettings)
    """The HTTP server that `hourline serve` runs."""
