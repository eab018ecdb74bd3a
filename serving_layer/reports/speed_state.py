"""Reports whether the speed layer runs, what it waits for, and how the last one has ended."""

from collections.abc import Mapping
from datetime import datetime

from hourline_core.model import Project
from hourline_core.runtime.kafka_absence import KafkaAbsence, last_absence
from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.registry_absence import RegistryAbsence, registry_absences
from hourline_core.runtime.speed_end import SpeedEnd, last_end
from serving_layer.described import Described


class KafkaAway(Described):
    """The last time in which Kafka did not answer the running speed layer, or denied the speed layer a permission that
    it needs.
    """

    since: datetime
    """When Kafka was asked first and did not answer (UTC)."""
    until: datetime | None
    """When it answered again (UTC). Null: it is still away."""
    reason: str
    """What was wrong, as a sentence."""


class Ended(Described):
    """An unexpected end of the speed layer. Both are null if its process was killed."""

    at: datetime | None
    """When it was (UTC)."""
    reason: str | None
    """The sentence that it ended with."""


class SpeedState(Described):
    """The state of the speed layer."""

    speed: str
    """Whether the speed layer runs, whether Kafka is away, which sources wait for the schema registry, and how the last
    one has ended, as a sentence.
    """
    kafka_away: KafkaAway | None
    """The last time without Kafka. Null: the running speed layer has seen none, or none runs."""
    ended: Ended | None
    """How the last speed layer has ended. Null: one runs, it was told to stop, or there was none."""


def report_speed_state(project: Project) -> SpeedState:
    """The state of the project's speed layer."""
    pid, standby = (lease_holder(project.workspace, name) for name in ("speed", "standby"))
    absence, end = last_absence(project.workspace), None if pid else last_end(project.workspace)
    words = (
        f"the speed layer runs (process {pid})" if pid else "the speed layer is not running; `hourline up` starts it"
    )
    if standby:
        words += f"; process {standby} stands by"
    if absence:
        words += f"; {_say_absence(absence)}"
    if without_registry := registry_absences(project.workspace):
        words += f"; {_say_without_registry(without_registry)}"
    if end:
        words += f"; {_say_end(end)}"
    return SpeedState(
        speed=words,
        kafka_away=KafkaAway(since=absence.since, until=absence.until, reason=absence.reason) if absence else None,
        ended=Ended(at=end.at, reason=end.reason) if end else None,
    )


def _say_absence(absence: KafkaAbsence) -> str:
    since = f"{absence.since:%Y-%m-%d %H:%M:%S}"
    if absence.until is None:
        return f"Kafka has been away since {since} UTC"
    return f"Kafka was away from {since} to {absence.until:%Y-%m-%d %H:%M:%S} UTC"


def _say_without_registry(absences: Mapping[str, RegistryAbsence]) -> str:
    since = f"since {min(one.since for one in absences.values()):%Y-%m-%d %H:%M:%S} UTC"
    if len(absences) == 1:
        return f"source '{next(iter(absences))}' has waited for the schema registry {since}"
    return f"{len(absences):,} sources have waited for the schema registry, the first {since}"


def _say_end(end: SpeedEnd) -> str:
    if end.at is None:
        return "the last one ended without a word, as after `kill -9`; see logs/speed.log"
    return f"the last one ended at {end.at:%Y-%m-%d %H:%M:%S} UTC: {end.reason}"
