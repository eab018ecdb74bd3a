"""What one micro-batch of a joined source reads: the next sequences of both inputs, and the files of their archives
that may have partners. Progress and the logs of the archives tell that. No event is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.storage.file_ranges import FileRange, file_ranges
from hourline_core.storage.file_slices import FileSlice
from speed_layer.joins.plan import Input, JoinPlan
from speed_layer.joins.spans import Span, merge_spans, spans_near, spans_of


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
    """Those of earlier events, as far as they may have a partner among the new ones of the other input."""
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
    plan: JoinPlan, inputs: Sequence[Input], read: Sequence[Sequence[ProgressRow]], after: Sequence[int]
) -> tuple[SideStep, SideStep]:
    """The step over the rows of progress ``read`` of each input, which was read up to the sequence ``after`` before."""
    hours = [{of.hour for row in rows for of in row.hours if of.events} for rows in read]
    # A right partner is at most `before` earlier and `after` later than the left event, and the other way round.
    reach = ((plan.after, plan.before), (plan.before, plan.after))
    sides = []
    for place, (one, rows) in enumerate(zip(inputs, read, strict=True)):
        up_to = rows[-1].sequence if rows else after[place]
        earlier, later = reach[place]
        own = spans_of(hours[place])
        near = spans_near(spans_of(hours[1 - place]), earlier, later) if after[place] else []
        by_hour = file_ranges(one.events, "hour") if (own or near) and one.events.file_uris() else []
        sequences = {of.path: (of.first, of.last) for of in file_ranges(one.events, "sequence")} if by_hour else {}
        new = [of for of in by_hour if sequences[of.path][1] > after[place] and sequences[of.path][0] <= up_to]
        old = [of for of in by_hour if sequences[of.path][0] <= after[place]]
        ids = merge_spans([*own, *near]) if one.source.id else []
        known = [of for of in by_hour if sequences[of.path][0] <= up_to]
        anew = plan.sides[place].anew
        last_old = anew.up_to if anew else 0
        old_files = frozenset(path for path, (first, _) in sequences.items() if first <= last_old)
        files = ((new, own), (old, near), (known, ids))
        sides.append(SideStep(after[place], up_to, *(_files(of, spans, old_files) for of, spans in files)))
    left, right = sides
    return left, right


def _files(files: Sequence[FileRange], spans: Sequence[Span], old: frozenset[str]) -> Files:
    touched = [of for of in files if any(of.last >= first and of.first <= last for first, last in spans)]
    return Files([FileSlice(of.path, 0, of.rows) for of in touched], spans, old & {of.path for of in touched})
