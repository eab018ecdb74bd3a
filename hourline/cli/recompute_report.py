"""The output of ``recompute``, ``backfill`` and ``import`` about a recompute: its lines, results and exit status."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hourline.cli.output import note, say
from hourline.cli.progress import in_words
from hourline.exit_status import BLOCKED
from hourline_core.model.hours import HOUR, HourRange, hour_text

if TYPE_CHECKING:
    from batch_layer.plan import PlannedHour
    from batch_layer.publish import Recomputed
    from hourline_core.ledger.finding import Finding
    from hourline_core.model import Project
    from hourline_core.runtime.running_recomputes import DecodedChunk

_MOST_NAMES = 6
"""The maximum number of separate hours that are listed by name."""


def arrivals_in_words(planned: Iterable["PlannedHour"]) -> str:
    """How the line about a recompute ends: whether no event is known to have arrived in its hours."""
    return "" if any(item.events for item in planned) else ", in which no event has arrived"


def report_waiting(process: int) -> None:
    """Print which process a recompute waits for."""
    # In the log of a task of Airflow, nobody presses it.
    gives_up = "; Ctrl-C gives up" if sys.stderr.isatty() else ""
    note(f"waiting for process {process}, which recomputes hours of this project{gives_up}")


def report_left_out(left_out: list["PlannedHour"]) -> None:
    """Print which planned hours another process has recomputed meanwhile."""
    metrics = ", ".join(sorted({item.metric for item in left_out}))
    hours = hours_in_words({item.hour for item in left_out})
    say(f"left out {hours}, of {metrics}: recomputed by another process meanwhile")


def report_open(skipped: list["PlannedHour"]) -> None:
    """Print which hours are left out, since they have not closed yet."""
    if skipped:
        note(f"left out, since not closed yet: {_by_metric((item.metric, item.hour) for item in skipped)}")


def report_decoded(chunk: "DecodedChunk") -> None:
    """Print that a chunk of a source's archived records was decoded anew, and how many are left."""
    left = f", {in_words(chunk.left)} left" if chunk.left else ""
    said = f"{chunk.events:,} event(s) decoded anew, as today's declaration says"
    note(f"{chunk.words}: {said}{left}" if chunk.chunks > 1 else f"{chunk.source}: {said}")


def report_published(done: "Recomputed") -> None:
    """Print which hours a job has published, and which are blocked."""
    if done.published:
        say(f"published {_by_metric(done.published)}: {done.events:,} events counted")
    if done.blocked:
        say(f"blocked {_by_metric(done.blocked)}: the recomputed rows did not pass their audit")


def write_results(
    file: Path | None,
    project: "Project",
    since: datetime,
    hours: HourRange | None,
    findings: Sequence["Finding"] = (),
    *,
    count: int,
    skipped: Iterable["PlannedHour"] = (),
    pending: Sequence[str] = (),
) -> None:
    """Write what was recomputed of ``hours`` (None: all) since a moment (UTC), and the open ``findings``, to the file
    of --results, as JSON. ``count`` is the number of hours that were to be recomputed. ``skipped`` are the open hours
    that were left out; they are written by source. ``pending`` are the sentences about declarations that are not in
    use yet.
    """
    if file is not None:
        from batch_layer.recompute_outcome import results_since

        names = ("source", "subject", "severity", "sentence")
        told = [{name: getattr(one, name) for name in names} for one in findings]
        still_open: dict[str, list[str]] = {}
        for source, hour in sorted({(item.source, item.hour) for item in skipped}):
            still_open.setdefault(source, []).append(hour_text(hour))
        outcome = {**results_since(project, since, hours), "findings": told, "hours": count, "open": still_open}
        file.write_text(json.dumps({**outcome, "pending": pending}))


def exit_if_blocked(done: Iterable["Recomputed"]) -> None:
    """Raise typer.Exit with status BLOCKED when an hour did not pass its audit."""
    if any(one.blocked for one in done):
        note("`hourline quality --blocked` says why; readers keep the previous results")
        raise typer.Exit(BLOCKED)


def hours_in_words(hours: Iterable[datetime]) -> str:
    """The number of hours, and which: the first and the last of a range, or each of a few."""
    ordered = sorted(hours)
    names = [hour_text(hour) for hour in ordered]
    if len(ordered) > 2 and ordered[-1] - ordered[0] != (len(ordered) - 1) * HOUR:
        which = ", ".join(names) if len(names) <= _MOST_NAMES else f"between {names[0]} and {names[-1]}"
    else:
        which = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    return f"{len(ordered)} hour(s), {which}"


def _by_metric(pairs: Iterable[tuple[str, datetime]]) -> str:
    """The hours of each metric. Metrics with the same hours are named together."""
    hours: dict[str, set[datetime]] = {}
    for metric, hour in pairs:
        hours.setdefault(metric, set()).add(hour)
    together: dict[frozenset[datetime], list[str]] = {}
    for metric in sorted(hours):
        together.setdefault(frozenset(hours[metric]), []).append(metric)
    return "; ".join(f"{hours_in_words(of)}, of {', '.join(metrics)}" for of, metrics in together.items())
