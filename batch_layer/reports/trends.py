"""Groups the rows of the quality table by expectation and hour, for the overview page."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.problems import Identity
from hourline_core.ledger.report_pages import SHOWN
from hourline_core.model.windows import HOURLY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = HOURLY.size // timedelta(seconds=1)
_WINDOW = SHOWN // HOURLY.size
"""The number of hours that are shown of a source, up to its newest audited one."""


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One expectation in one hour. The fields are those of QUALITY_SCHEMA. ``hour`` counts hours since 1970 (UTC)."""

    publication: int
    audited: int
    source: str
    metric: str | None
    hour: int
    expectation: str
    about: str | None
    parameters: str | None
    condition: str | None
    unit: str | None
    origin: str
    severity: str
    success: bool
    observed: float | None
    lower: float | None
    upper: float | None
    unexpected: int | None
    found: str | None
    row: int
    """Its place in the table."""

    @property
    def identity(self) -> Identity:
        """What it has in common with the other findings of its expectation."""
        texts = (self.about or "", self.parameters or "", self.origin, self.severity, self.condition or "")
        return Identity(self.source, self.metric, self.expectation, *texts, self.unit or "hour")

    @property
    def state(self) -> str:
        """``passed``, ``warned`` or ``failed``."""
        return "passed" if self.success else "warned" if self.severity == "warn" else "failed"


@dataclass
class Line:
    """One expectation over the hours."""

    findings: dict[int, QualityRow]

    @property
    def newest(self) -> QualityRow:
        """What was found in the newest hour."""
        return self.findings[max(self.findings)]

    def hours_in(self, state: str) -> list[int]:
        """The hours in which it passed, warned or failed, in order."""
        return sorted(hour for hour, finding in self.findings.items() if finding.state == state)


@dataclass
class Trend:
    """The audits of one metric, or of a source's events (``metric`` is None)."""

    source: str
    metric: str | None
    first: int = 0
    end: int = 0
    """The hours shown are ``first <= hour < end``, the same for everything about a source."""
    lines: list[Line] = field(default_factory=list)
    """Those that have failed first, then those with numbers."""
    states: dict[int, str] = field(default_factory=dict)
    """By audited hour: passed, warned, failed, blocked or accepted."""
    publications: dict[int, int] = field(default_factory=dict)
    """By audited hour, the newest publication, whose audit counts."""
    accepted: dict[int, QualityRow] = field(default_factory=dict)
    """By hour that a person has accepted, the record of it."""
    mended: dict[int, int] = field(default_factory=dict)
    """By hour that failed an earlier audit and none of its newest one, when that ran."""


def hour_number(hour: datetime) -> int:
    """Hours since 1970."""
    return (hour - _EPOCH) // HOURLY.size


def hour_of(number: int) -> datetime:
    """The hour of that number, in UTC."""
    return _EPOCH + number * HOURLY.size


def trends(rows: pa.Table, blocked: Iterable[tuple[str, int]]) -> list[Trend]:
    """A trend for each source and for each of its metrics, in order. ``blocked`` has metrics and hours."""
    grouped: dict[tuple[str, str | None], list[QualityRow]] = defaultdict(list)
    for finding in read_quality_rows(rows):
        grouped[finding.source, finding.metric].append(finding)
    open_hours = set(blocked)
    newest: dict[str, int] = {}
    for (source, _), findings in grouped.items():
        newest[source] = max(newest.get(source, 0), *(finding.hour for finding in findings))
    collected = []
    for (source, metric), findings in sorted(
        grouped.items(), key=lambda item: (item[0][0], item[0][1] is not None, item[0][1] or "")
    ):
        shown = [finding for finding in findings if finding.hour > newest[source] - _WINDOW]
        if shown:
            collected.append(trend_of(source, metric, shown, open_hours))
    for trend in collected:
        beside = [other for other in collected if other.source == trend.source]
        trend.first, trend.end = min(min(other.states) for other in beside), newest[trend.source] + 1
    return collected


def read_quality_rows(rows: pa.Table) -> list[QualityRow]:
    """The rows (QUALITY_SCHEMA) as Python has them, without those of expectations that were not applied."""
    rows = rows.append_column("row", pa.array(range(rows.num_rows)))
    rows = rows.filter(pc.fill_null(rows["applied"], True))
    # Numbers instead of moments: making half a million datetimes costs more than all the rest.
    audited, hour = (
        rows[name].cast(pa.timestamp("s", tz="UTC"), safe=False).cast(pa.int64()) for name in ("audited", "hour")
    )
    made = {"audited": audited, "hour": pc.divide(hour, _SECONDS)}
    columns = [made[name] if name in made else rows[name] for name in QualityRow.__dataclass_fields__]
    return [QualityRow(*values) for values in zip(*(column.to_pylist() for column in columns), strict=True)]


def trend_of(
    source: str, metric: str | None, findings: list[QualityRow], blocked: Collection[tuple[str, int]] = ()
) -> Trend:
    """The trend of ``findings``, which are all about one source and ``metric``, over all their hours."""
    audits: dict[int, int] = {}
    accepted: dict[int, QualityRow] = {}
    for finding in findings:
        if finding.expectation != "accepted":
            audits[finding.hour] = max(audits.get(finding.hour, 0), finding.publication)
        elif finding.hour not in accepted or accepted[finding.hour].publication < finding.publication:
            accepted[finding.hour] = finding
    counted = [
        finding
        for finding in findings
        if finding.expectation != "accepted" and finding.publication == audits[finding.hour]
    ]

    states: dict[int, str] = dict.fromkeys(audits, "passed")
    for finding in counted:
        if finding.state == "failed" or (finding.state == "warned" and states[finding.hour] == "passed"):
            states[finding.hour] = finding.state
    accepted = {hour: one for hour, one in accepted.items() if one.publication >= audits.get(hour, 0)}
    states |= dict.fromkeys(accepted, "accepted")
    for hour in audits:
        if metric is not None and (metric, hour) in blocked:
            states[hour] = "blocked"
    failed_before = {
        finding.hour
        for finding in findings
        if finding.state == "failed" and finding.publication < audits.get(finding.hour, 0)
    }
    mended = {one.hour: one.audited for one in counted if one.hour in failed_before and states[one.hour] == "passed"}
    publications = {**{hour: one.publication for hour, one in accepted.items()}, **audits}
    return Trend(
        source,
        metric,
        min(publications, default=0),
        max(publications, default=-1) + 1,
        lines=_lines(counted),
        states=states,
        publications=publications,
        accepted=accepted,
        mended=mended,
    )


def _lines(findings: list[QualityRow]) -> list[Line]:
    """One line per expectation, also if its bounds have changed. Two expectations on the same columns with other
    parameters, or with another condition, have two lines.
    """
    alike: dict[tuple[object, ...], list[QualityRow]] = defaultdict(list)
    for finding in findings:
        unit = finding.unit or "hour"
        alike[finding.expectation, finding.about, finding.origin, finding.severity, unit].append(finding)
    lines = []
    for group in alike.values():
        line = Line({finding.hour: finding for finding in group})
        if len(line.findings) == len(group):
            lines.append(line)
            continue
        apart: dict[tuple[str | None, str | None], dict[int, QualityRow]] = defaultdict(dict)
        for finding in group:
            apart[finding.parameters, finding.condition][finding.hour] = finding
        lines += [Line(part) for part in apart.values()]
    return sorted(lines, key=_by_interest)


def _by_interest(line: Line) -> tuple[object, ...]:
    some = line.newest
    quiet = all(finding.observed is None for finding in line.findings.values())
    return (
        -len(line.hours_in("failed")),
        -len(line.hours_in("warned")),
        quiet,
        some.about or "",
        some.expectation,
        some.parameters or "",
        some.condition or "",
    )
