"""What one micro-batch of a joined source reads: the next sequences of both inputs, and the files of their archives
that may have partners, or events to be joined without one. Progress and the logs of the archives tell that. No event is
read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.storage.file_ranges import file_ranges
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import NO_FILES, Files, choose_files
from speed_layer.derived.spans import merge_spans, spans_near, spans_of
from speed_layer.joins.plan import JoinPlan


@dataclass(frozen=True)
class SideStep:
    """What a micro-batch reads of one input."""

    after: int
    """The sequence up to which it was read before."""
    up_to: int
    """The sequence up to which it is read now."""
    new: Files = NO_FILES
    """Those of the events in between."""
    near: Files = NO_FILES
    """Those of earlier events, as far as they may have a partner among the new ones of the other input, or may now be
    joined without one.
    """
    far: Files = NO_FILES
    """Those of earlier events, as far as one of these of the other input may have had a partner in them. Empty: nobody
    needs to know.
    """
    identities: Files = NO_FILES
    """Those of all events that may have the id of one of these. Empty: the input has no id."""


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
    hours = [{hour for row in rows for hour in row.touched_hours} for rows in read]
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
        ids = merge_spans([*own, *near, *far]) if plan.sides[place].identity else []
        known = [of for of in by_hour if sequences[of.path][0] <= up_to]
        anew = plan.sides[place].anew
        last_old = anew.up_to if anew else 0
        old_files = frozenset(path for path, (first, _) in sequences.items() if first <= last_old)
        files = ((new, own), (old, near), (old, far), (known, ids))
        sides.append(SideStep(after[place], up_to, *(choose_files(of, spans, old_files) for of, spans in files)))
    left, right = sides
    return left, right
