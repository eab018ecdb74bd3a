"""What one micro-batch of a joined source reads: the next sequences of both inputs, and the files of their archives
that may have partners, or events to be joined without one. Progress and the logs of the archives tell that. No event is
read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hourline_core.ledger.progress_rows import ProgressRow
from speed_layer.derived.archive_files import ArchiveFiles
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.derived.read_events import NO_FILES, Files
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
        if not (own or near or far):
            sides.append(SideStep(after[place], up_to))
            continue
        files = ArchiveFiles.of(one.events, plan.sides[place].anew)
        ids = merge_spans([*own, *near, *far]) if plan.sides[place].identity else []
        of_events = [(own, after[place], up_to), (near, 0, after[place]), (far, 0, after[place]), (ids, 0, up_to)]
        sides.append(SideStep(after[place], up_to, *(files.choose(*of) for of in of_events)))
    left, right = sides
    return left, right
