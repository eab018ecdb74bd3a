"""What one micro-batch of a joined source reads: the next sequences of both inputs, and the files of their archives
that may have partners, or events to be joined without one. Progress and the logs of the archives tell that. No event is
read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.storage.file_ranges import FileRange, file_ranges
from hourline_core.storage.file_slices import FileSlice
from speed_layer.joins.plan import Input, JoinPlan
from speed_layer.joins.spans import FIRST_HOUR, Span, hour_at, merge_spans, spans_near, spans_of


@dataclass(frozen=True)
class Files:
    """What is read of an archive: of some files, the events of some hours."""

    slices: Sequence[FileSlice] = ()
    spans: Sequence[Span] = ()
    """In order, with an hour or more between two of them."""
    old: frozenset[str] = frozenset()
    """The paths of those that may have events to decode anew."""

    @property
    def rows(self) -> int:
        """The number of events in the files, of any hour."""
        return sum(one.end - one.first for one in self.slices)


class Passed(NamedTuple):
    """The clock of a joined source before a micro-batch and after it (UTC). None: it has none yet.

    An event of an outer side is joined without a partner in the first micro-batch that has read it, and whose clock has
    passed it, if it has none by then.
    """

    before: datetime | None = None
    after: datetime | None = None

    @property
    def hours(self) -> Sequence[Span]:
        """Those of the times in between."""
        if self.after is None or self.after == self.before:
            return ()
        first = hour_at(self.before, timedelta(0)) if self.before else FIRST_HOUR
        return [(first, hour_at(self.after, timedelta(0)))]

    def up_to_now(self, spans: Sequence[Span]) -> Sequence[Span]:
        """Those hours of ``spans`` that the clock has entered."""
        if self.after is None:
            return ()
        now = hour_at(self.after, timedelta(0))
        return [(first, min(last, now)) for first, last in spans if first <= now]


@dataclass(frozen=True)
class SideStep:
    """What a micro-batch reads of one input."""

    after: int
    """The sequence up to which it was read before."""
    up_to: int
    """The sequence up to which it is read now."""
    new: Files = Files()
    """Those of the events in between."""
    near: Files = Files()
    """Those of earlier events, as far as they may have a partner among the new ones of the other input, or may now be
    joined without one.
    """
    far: Files = Files()
    """Those of earlier events, as far as one of these of the other input may have had a partner in them. Empty: nobody
    needs to know.
    """
    identities: Files = Files()
    """Those of all events that may have the id of one of these. Empty: the input has no id."""


def split_rows(rows: Sequence[ProgressRow], most: int) -> list[ProgressRow]:
    """The first ``rows`` of progress, whole sequences with at most ``most`` accepted events; at least one sequence."""
    taken: list[ProgressRow] = []
    accepted = 0
    for row in rows:
        if taken and row.sequence != taken[-1].sequence and accepted + row.counts.accepted > most:
            break
        taken.append(row)
        accepted += row.counts.accepted
    return taken


def plan_step(
    plan: JoinPlan,
    inputs: Sequence[Input],
    read: Sequence[Sequence[ProgressRow]],
    after: Sequence[int],
    passed: Passed,
) -> tuple[SideStep, SideStep]:
    """The step over the rows of progress ``read`` of each input, which was read up to the sequence ``after`` before.
    ``passed`` is what it makes of the clock.
    """
    hours = [{of.hour for row in rows for of in row.hours if of.events} for rows in read]
    # A right partner is at most `before` earlier and `after` later than the left event, and the other way round.
    reach = ((plan.after, plan.before), (plan.before, plan.after))
    decided = [passed.hours if outer else () for outer in plan.outer]
    nears = [
        merge_spans([*spans_near(spans_of(hours[1 - place]), *reach[place]), *decided[place]]) if after[place] else []
        for place in (0, 1)
    ]
    sides = []
    for place, (one, rows) in enumerate(zip(inputs, read, strict=True)):
        up_to = rows[-1].sequence if rows else after[place]
        own, near, other = spans_of(hours[place]), nears[place], 1 - place
        needed = plan.outer[other] and after[place]
        far = spans_near(passed.up_to_now(nears[other]), *reach[place]) if needed else []
        by_hour = file_ranges(one.events, "hour") if (own or near or far) and one.events.file_uris() else []
        sequences = {of.path: (of.first, of.last) for of in file_ranges(one.events, "sequence")} if by_hour else {}
        new = [of for of in by_hour if sequences[of.path][1] > after[place] and sequences[of.path][0] <= up_to]
        old = [of for of in by_hour if sequences[of.path][0] <= after[place]]
        ids = merge_spans([*own, *near, *far]) if one.source.id else []
        known = [of for of in by_hour if sequences[of.path][0] <= up_to]
        anew = plan.sides[place].anew
        last_old = anew.up_to if anew else 0
        old_files = frozenset(path for path, (first, _) in sequences.items() if first <= last_old)
        files = ((new, own), (old, near), (old, far), (known, ids))
        sides.append(SideStep(after[place], up_to, *(_files(of, spans, old_files) for of, spans in files)))
    left, right = sides
    return left, right


def _files(files: Sequence[FileRange], spans: Sequence[Span], old: frozenset[str]) -> Files:
    touched = [of for of in files if any(of.last >= first and of.first <= last for first, last in spans)]
    return Files([FileSlice(of.path, 0, of.rows) for of in touched], spans, old & {of.path for of in touched})
