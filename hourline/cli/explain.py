"""``explain``: where a number comes from, as one page. Needs neither Spark nor Java."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hourline.cli.explain_lookups import describe_looked_up
from hourline.cli.explain_window import say_window
from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load, require_known
from hourline.cli.output import number_text, say, say_facts, say_heading, say_json, say_table, shortest_path
from hourline_core.errors import UsageError
from hourline_core.ledger.missing_hours import MissingHours
from hourline_core.model.hours import parse_hour, parse_window_time
from hourline_core.model.value_text import value_text

if TYPE_CHECKING:
    from serving_layer.reports.cell_events import CellEvents
    from serving_layer.reports.decoded_anew import DecodedAnew
    from serving_layer.reports.lineage import Explanation
    from serving_layer.reports.published_values import PublishedValue

_MOST_STRETCHES = 4
_MISSING = "it has events that the metric has not seen, from before it was declared or reset, or while it was away"


def explain(
    metric: Annotated[str, typer.Argument(help="The metric.")],
    hour: Annotated[
        str, typer.Argument(help="The hour (UTC), such as 2013-01-05T14; with --window, the start of a window.")
    ],
    dimensions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DIMENSION=VALUE",
            help="Only the groups with these values. `origin` alone means null. Other dimensions are rolled up.",
        ),
    ] = None,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    window: Annotated[
        bool,
        typer.Option("--window", help="Explain the window that starts then, or the session at that time."),
    ] = False,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Explain where a number comes from. This shows its declaration, events, table versions and audit, and every value
    that was ever published for it.
    """
    declared = load(project, workspace)
    require_known("metric", metric, list(declared.all_metrics))
    chosen, values = parse_window_time(hour) if window else parse_hour(hour), _values(dimensions or [])
    from serving_layer import connect

    with connect(declared) as connection:
        if window:
            from serving_layer.reports.windows import explain_window

            of_window = explain_window(connection, metric, chosen, values)
            say_json(of_window.model_dump()) if format is ReportFormat.JSON else say_window(of_window)
            return
        from serving_layer.reports.lineage import explain_number

        explained = explain_number(connection, metric, chosen, values)
    if format is ReportFormat.JSON:
        say_json(explained.model_dump())
    else:
        _say(explained)


def _values(texts: list[str]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise UsageError(
                f"got '{text}', allowed is DIMENSION=VALUE, such as origin=JFK (`origin` alone means null)"
            )
        if name in values:
            raise UsageError(
                f"got dimension '{name}' twice; one value of each is allowed, "
                "and a dimension that is left out is rolled up"
            )
        values[name] = value if equals else None
    return values


def _say(explained: "Explanation") -> None:
    cell = "".join(f", {name} {value_text(value)}" for name, value in explained.dimensions.items())
    say_heading(
        f"{explained.metric}{cell}, {explained.hour:%Y-%m-%d %H:%M} UTC: ",
        explained.state,
        "" if explained.closed else ", not closed yet",
    )
    if explained.description:
        say(explained.description)
    say("")
    _say_answer(explained)
    say("")
    say_facts(
        [
            ("declared", list(_describe_declaration(explained))),
            ("events", list(_events(explained))),
            *describe_looked_up(explained.events.lookups),
            ("read at", list(_versions(explained))),
            ("audit", _audit(explained)),
        ]
    )
    say("")
    _say_published(explained)


def _say_answer(explained: "Explanation") -> None:
    if explained.state == "missing":
        missing = MissingHours.of(explained.metric, [(explained.hour, explained.closed)])
        say(f"no answer: {_MISSING}; `{missing.command or 'hourline recompute'}` computes it")
        return
    # A column is left out if it would repeat another: one layer has it all, or there are no late events.
    answer = explained.answer
    both = any(a.final is not None for a in answer) and any(a.provisional is not None for a in answer)
    parts = {"final": "final", "provisional": "provisional"} if both else {}
    if not any(all(a.at_close == getattr(a, part) for a in answer) for part in ("value", *parts)):
        parts["at_close"] = "without late"
    say_table(
        ["measure", "value", *parts.values(), "declared as"],
        [
            (a.measure, number_text(a.value), *(number_text(getattr(a, part)) for part in parts), a.declared)
            for a in answer
        ],
        right=["value", *parts.values()],
    )


def _describe_declaration(explained: "Explanation") -> Iterator[str]:
    declared = explained.declared
    rolled_up = [name for name in declared.dimensions if name not in explained.dimensions]
    merged = f"; {explained.groups:,} {_plural('group', explained.groups)} merged" + (
        f" over {', '.join(rolled_up)}" if rolled_up else ""
    )
    yield f"{declared.hash}, source {declared.source}{f', id {declared.id}' if declared.id else ''}{merged}"
    named = {name: text for name, text in declared.dimensions.items() if name != text}
    named |= declared.explode | declared.derived
    if named:
        yield ", ".join(f"{name}: {text}" for name, text in named.items())
    for of, condition in (("", declared.where), (" of the source", declared.source_where)):
        if condition:
            yield f"where{of}: {condition}"
    if declared.changing:
        yield declared.changing.words


def _events(explained: "Explanation") -> Iterator[str]:
    events = explained.events
    of = " and ".join(f"{name} {value_text(explained.dimensions[name])}" for name in events.of) or "the hour"
    before = f" (before {' and '.join(events.before)})" if events.before else ""
    takes_back = explained.declared.takes_back
    duplicates = f"{_count(events.duplicates, 'no')} {_plural('duplicate', events.duplicates)} left out on arrival"
    if takes_back:
        duplicates = f"{_count(events.duplicates, 'none')} taken back"
    late = f"{_count(events.late, 'none')} of them late"
    yield f"{events.events:,} accepted of {of}{before}, {late}; {duplicates}"
    if events.repeated and events.counted is not None:
        out = events.events - events.counted
        waiting = events.repeated - out
        parts = [f"{events.counted:,} count"]
        why = "were taken back" if takes_back else "repeat an old id"
        parts += [f"{out:,} {why}, and the recompute left them out"] if out else []
        parts += [f"{waiting:,} of those that count {why}, and the next recompute leaves them out"]
        yield f"of the {events.events:,} accepted, {'; '.join(parts if waiting else parts[:-1])}"
    if events.first_arrived and events.last_arrived:
        batches = f"{events.sequences:,} {_plural('micro-batch', events.sequences)}"
        yield f"arrived {_span(events.first_arrived, events.last_arrived)} in {batches}"
    yield from _stretches(events)
    for made in events.decodings:
        if not made.is_current and (made.raw or made.changes):
            by = f"the declaration of {made.since:%Y-%m-%d %H:%M:%S}" if made.since else "an older version of Hourline"
            changes = f": {'; '.join(made.changes)}" if made.changes else ""
            what = "a recompute decodes their records anew" if made.raw else "their bytes were not kept, so they stay"
            yield f"{made.events:,} decoded by {by}, {what}{changes}"
    yield from _quarantined(events)
    if events.decoded_anew:
        yield from _decoded_anew(events.decoded_anew)


def _quarantined(events: "CellEvents") -> Iterator[str]:
    if events.quarantined:
        number = len(events.quarantined)
        yield f"{number:,} {_plural('event', number)} of the hour in quarantine, not counted until the class is mended"
    for one in events.quarantined[:_MOST_STRETCHES]:
        place = f" place {one.place}" if one.place else ""
        address = f"{one.topic}[{one.partition}] offset {one.offset}{place}"
        yield f"{one.measure} ({one.file}) fails at {address}: {one.message}"
    if len(events.quarantined) > _MOST_STRETCHES:
        yield f"and {len(events.quarantined) - _MOST_STRETCHES:,} more; `--format json` has all"


def _decoded_anew(found: "DecodedAnew") -> Iterator[str]:
    rejected = sum(one.events for one in found.rejected)
    entered = f" ({found.entered:,} of them entered it)" if found.entered else ""
    yield (
        f"decoded anew by today's declaration: {found.events:,} of the hour{entered}, "
        f"{_count(found.moved, 'none')} moved to other hours, {_count(rejected, 'none')} rejected"
    )
    for one in found.rejected[:_MOST_STRETCHES]:
        first = "at" if one.events == 1 else "the first at"
        yield f"{one.events:,} rejected, {first} {one.topic}[{one.partition}] offset {one.offset}: {one.reason}"
    if len(found.rejected) > _MOST_STRETCHES:
        yield f"and {len(found.rejected) - _MOST_STRETCHES:,} more reasons; `--format json` has all"


def _stretches(events: "CellEvents") -> Iterator[str]:
    for stretch in events.stretches[:_MOST_STRETCHES]:
        offsets = _range("offset", stretch.first_offset, stretch.last_offset)
        sequences = _range("sequence", stretch.first_sequence, stretch.last_sequence)
        yield f"{stretch.topic}[{stretch.partition}] {offsets}, {sequences}: {stretch.events:,} in {stretch.layer}"
    if len(events.stretches) > _MOST_STRETCHES:
        yield f"and {len(events.stretches) - _MOST_STRETCHES:,} more; `--format json` has all"


def _versions(explained: "Explanation") -> Iterator[str]:
    read = explained.versions
    final = "" if read.final is None else f", final {read.final}"
    publication = "no publication" if read.publication is None else f"publication {read.publication}"
    versions = f"progress {read.progress}, provisional {read.provisional}{final}"
    yield f"sequence {read.sequence:,}, {publication}; versions of the tables: {versions}"
    count = f"{read.above:,} {_plural('micro-batch', read.above)}"
    above = f"{count}, {_range('sequence', read.first_above, read.last_above)}" if read.above else "nothing"
    if read.cutoff is None:
        yield f"never recomputed; by the speed layer: {above}"
    else:
        yield f"cutoff {read.cutoff:,}, published {read.published:%Y-%m-%d %H:%M:%S}; above the cutoff: {above}"


def _audit(explained: "Explanation") -> list[str]:
    audit = explained.audit
    if audit is None:
        return ["none is kept" if explained.versions.cutoff is not None else "none yet"]
    lines = [f"{audit.outcome} {audit.audited:%Y-%m-%d %H:%M:%S}"]
    if audit.expectations:  # what a person has accepted was evaluated by an earlier audit
        lines[0] += f", {audit.expectations:,} {_plural('expectation', audit.expectations)}"
    lines += [
        f"{f.severity}: {f.expectation}{f' of {f.about}' if f.about else ''}: {f.found}"
        for f in audit.findings
        if not f.success
    ]
    return [*lines, *([f"{shortest_path(audit.report)}"] if audit.report else [])]


def _say_published(explained: "Explanation") -> None:
    if not explained.published:
        say(
            "this hour was never published"
            if explained.versions.cutoff is None
            else "the published values are no longer kept"
        )
        return
    measures = [answer.measure for answer in explained.answer]
    why = "why (over all dimensions)" if explained.dimensions else "why"
    rows = [
        (
            f"{entry.published:%Y-%m-%d %H:%M:%S}" if entry.stage in ("final", "blocked") else "",
            entry.publication if entry.stage in ("final", "blocked") else None,
            entry.stage,
            entry.cutoff,
            *(number_text((entry.values or {}).get(name)) for name in measures),
            _why(entry),
        )
        for entry in _changing(explained.published)
    ]
    if explained.state in ("revised", "stale", "incomplete", "blocked", "provisional"):
        rows.append(
            ("now", None, explained.state, None, *(number_text(answer.value) for answer in explained.answer), "")
        )
    say_table(
        ["published (UTC)", "publication", "as", "cutoff", *measures, why],
        rows,
        right=["publication", "cutoff", *measures],
    )


def _changing(published: "list[PublishedValue]") -> "Iterator[PublishedValue]":
    """Leave out what was served before a publication if it equals the last publication."""
    last: dict[str, Any] | None = None
    for entry in published:
        if entry.stage != "provisional" or entry.values != last or entry.why:
            yield entry
        if entry.stage != "blocked":
            last = entry.values


def _why(entry: "PublishedValue") -> str:
    causes: dict[str, list[str]] = {}
    for reason in entry.why:
        if reason.cause != "rounding":
            moved = (
                "changed"
                if reason.amount is None
                else f"{'+' if reason.amount > 0 else ''}{number_text(reason.amount)}"
            )
            # The sum of all unchanged groups completes those of the changed ones.
            causes.setdefault(reason.cause, []).extend([f"{reason.measure} {moved}"] if reason.amount != 0 else [])
    told = [f"{cause}: {', '.join(moves)}" if moves else cause for cause, moves in causes.items()]
    unknown = ["its values are not kept any more"] if entry.stage == "final" and entry.values is None else []
    return "; ".join([*told, *([entry.note] if entry.note else []), *unknown])


def _range(what: str, first: object, last: object) -> str:
    return f"{what} {first:,}" if first == last else f"{what}s {first:,} … {last:,}"


def _span(first: datetime, last: datetime) -> str:
    end = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    start = f"{first:%Y-%m-%d %H:%M:%S}"
    return start if last - first < timedelta(seconds=1) else f"{start} … {end}"


def _count(number: int, nothing: str) -> str:
    return f"{number:,}" if number else nothing


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}{'es' if word.endswith('ch') else 's'}"
