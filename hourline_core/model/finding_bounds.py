"""What opens a finding, and how severe it is: ``findings:`` of a source and of the settings. Each has a default."""

import re
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.times import Duration

Told = Literal["fail", "warn", "off"]
"""The severity of a finding. ``off``: nobody looks for it."""

_SEVERITIES = ("fail", "warn", "off")
_SIZE = re.compile(r"([1-9]\d{0,5})([mgt])", re.ASCII)
_BYTES = {"m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LEAST = timedelta(minutes=1)


def _share(share: float) -> float:
    if not 0 <= share < 1:
        raise refuse(f"got {share:g}, which no share is above: allowed is a share from 0 to below 1, such as 0.05")
    return share


def _time(time: timedelta) -> timedelta:
    if time < _LEAST:
        raise refuse(f"got {time.total_seconds():g}s, allowed is at least 1m")
    return time


def _size(text: str) -> str:
    if not _SIZE.fullmatch(text):
        raise refuse(f"got {describe(text)}, allowed is a size such as 512m or 2g")
    return text


class Bound(Declaration):
    """What opens a finding. Its short forms are the bound alone, and the severity alone."""

    bound: ClassVar[str]
    """The name of the field with the bound."""

    @classmethod
    def complete(cls, value: Any, default: "Bound") -> Any:
        """``value`` in its long form, with what it leaves out as in ``default``."""
        if isinstance(value, Declaration):
            return value
        if isinstance(value, str) and value in _SEVERITIES:
            value = {"severity": value}
        elif not isinstance(value, dict):
            value = {cls.bound: value}
        return {**{name: getattr(default, name) for name in cls.model_fields}, **value}


class ShareBound(Bound):
    """A share that opens a finding. `late: 0.1` stands for `late: {above: 0.1}`, `late: off` for
    `late: {severity: off}`.
    """

    bound: ClassVar[str] = "above"

    above: Annotated[float, AfterValidator(_share)] = 0.5
    """The share above which it opens, from 0 to below 1. The default is that of its key."""

    severity: Told = "warn"
    """`fail`: the hourly run fails, and so does `hourline quality`. `warn`: it is only told. `off`: nobody looks for
    it. The default is that of its key.
    """


class TimeBound(Bound):
    """A time that opens a finding. `silence: 3h` stands for `silence: {after: 3h}`, `silence: fail` for
    `silence: {severity: fail}`.
    """

    bound: ClassVar[str] = "after"

    after: Annotated[Duration, AfterValidator(_time)] = timedelta(hours=1)
    """The time after which it opens. At least `1m`. The default is that of its key."""

    severity: Told = "warn"
    """As for a share."""


class SizeBound(Bound):
    """A size that opens a finding. `remembered_ids: 4g` stands for `remembered_ids: {above: 4g}`."""

    bound: ClassVar[str] = "above"

    above: Annotated[str, AfterValidator(_size)] = "1g"
    """The size above which it opens, such as `512m` or `2g`."""

    severity: Told = "warn"
    """As for a share."""

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        match = _SIZE.fullmatch(self.above)
        assert match, "it was validated"
        return int(match[1]) * _BYTES[match[2]]


ShareForm = Annotated[
    ShareBound, BeforeValidator(lambda value: value, json_schema_input_type=float | Told | ShareBound)
]
TimeForm = Annotated[
    TimeBound, BeforeValidator(lambda value: value, json_schema_input_type=Duration | Told | TimeBound)
]
SizeForm = Annotated[SizeBound, BeforeValidator(lambda value: value, json_schema_input_type=str | Told | SizeBound)]
"""Bounds in their long or short forms, for editors. ``Bounds`` completes them, since it knows the defaults."""


class Bounds(Declaration):
    """The bounds of some kinds of findings, each in its short or long form."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        """Complete each bound that is not given in whole by the default of its key."""
        if not isinstance(value, dict):
            return value
        defaults = {name: field.default for name, field in cls.model_fields.items() if isinstance(field.default, Bound)}
        return {
            key: type(defaults[key]).complete(item, defaults[key]) if key in defaults and item is not None else item
            for key, item in value.items()
        }


class SourceFindings(Bounds):
    """What opens a finding about the source, and how severe it is.

    Shares are of the records that arrived in the hour up to the last one. A finding about rejected records needs ten of
    them. `fail`: the hourly run fails, and so does `hourline quality`. `warn`: it is only told. `off`: nobody looks for
    it. A finding blocks no publication.
    """

    all_rejected: Told = "fail"
    """No record has been accepted since some micro-batch, and ten or more have been rejected."""

    rejected: ShareForm = ShareBound(above=0.05, severity="fail")
    """The share of rejected records."""

    new_reason: Told = "warn"
    """A record was rejected within the last day for a reason that was not seen in the 28 days before. The source must
    have been read for a day.
    """

    late: ShareForm = ShareBound(above=0.5)
    """The share of late events among the accepted ones."""

    duplicates: ShareForm = ShareBound(above=0.5)
    """The share of duplicates among the accepted events and duplicates. It needs an `id`."""

    taken_by_none: Told = "warn"
    """A record came that no branch of the topic takes. It needs a `branch`."""

    quarantine: Told = "warn"
    """An event is in quarantine: a metric does not count it, because a class of the metric fails for it."""

    held_clock: TimeForm = TimeBound(severity="fail")
    """The time for which records of a partition have come without moving the source's clock, which the partition
    holds, while another partition is ahead by more than an hour.
    """

    overdue_hours: TimeForm = TimeBound()
    """The time by which an hour's close is overdue: beyond its end, the grace, the source's usual delay and its usual
    silence. The source must have been read for a day.
    """

    silence: TimeForm = TimeBound()
    """The time without a record. Twice the usual longest silence counts instead if it is longer. The source must have
    been read for a day.
    """

    silent_partition: TimeForm = TimeBound(severity="fail")
    """The time without a record of a partition that holds the clock, because the source declares no `idle`, while
    others have records. Twice its usual longest silence counts instead if it is longer.
    """

    idle_partition: TimeForm = TimeBound()
    """The same for a partition of a source that declares `idle`, so it does not hold the clock."""

    topic_gone: Told = "fail"
    """A topic was deleted, and the running speed layer waits for a new one."""

    registry_away: TimeForm = TimeBound(after=timedelta(minutes=5), severity="fail")
    """The time for which the source has waited for a schema that the schema registry does not tell, while the speed
    layer runs.
    """

    unread_files: Told = "fail"
    """A file, or a commit of a Delta table, is not read as it is: it is damaged, was changed after it was read, or was
    taken away before. Or its folder is not there. It needs `files` or `delta`, and the running speed layer.
    """

    gap: Told = "fail"
    """Kafka has deleted records before they were read, and nobody has confirmed the gap."""

    not_recomputed: TimeForm = TimeBound()
    """The time by which a recompute is overdue: beyond the next run by `schedule.cron`, and `schedule.deadline`."""

    refused_lookup: Told = "fail"
    """The last refresh of a lookup was refused: its table has vanished, or is broken. The last good version is used."""

    changed_lookup: Told = "fail"
    """Rows of a lookup have changed that the events of more than its `most_changed_hours` published hours met. These
    hours are stale, and wait for a person.
    """

    failing_sink: TimeForm = TimeBound(after=timedelta(minutes=1), severity="fail")
    """The time for which the results of a metric have not arrived at a sink."""

    remembered_ids: SizeForm = SizeBound()
    """The size of the ids within `id_horizon`, 8 bytes for each event. Those beyond `speed.ids_in_memory` are in files.
    """


class SpeedFindings(Bounds):
    """What opens a finding about the speed layer or the reports, and how severe it is."""

    ended: Told = "fail"
    """The speed layer has ended, and nobody had told it to."""

    kafka_away: TimeForm = TimeBound(after=timedelta(minutes=5), severity="fail")
    """The time for which Kafka has not answered the running speed layer."""

    reports: Told = "warn"
    """The reports of audits could not be written. Their hours are published."""


def severity_of(findings: Bounds, kind: str) -> Told:
    """The severity of the findings of one kind."""
    bound = getattr(findings, kind)
    severity: Told = bound.severity if isinstance(bound, ShareBound | TimeBound | SizeBound) else bound
    return severity
