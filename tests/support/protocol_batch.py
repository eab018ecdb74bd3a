"""The batch layer in the protocol's model: take a cutoff, count the archived events up to it, publish by the one commit
to coverage.
"""

from collections import Counter
from collections.abc import Iterable

from tests.support.protocol_model import Model, Process
from tests.support.protocol_oracle import Declaration
from tests.support.protocol_tables import Cut, Event, last_sequence, pinned, tiles


def recompute(model: Model, hours: list[int], at_once: int, metrics: Iterable[str]) -> Process:
    """Recompute ``hours`` of all ``metrics``, ``at_once`` in one job; a backfill is one of many jobs, between which
    others go on.
    """
    declarations = [declaration for metric in metrics for declaration in model.declared.get(metric, [])[-1:]]
    for first in range(0, len(hours), at_once):
        yield from _job(model, hours[first : first + at_once], declarations)


def _job(model: Model, hours: list[int], declarations: list[Declaration]) -> Process:
    coverage = model.open(model.coverage)
    yield "open final"
    final = {declaration: model.open(model.final[declaration]) for declaration in declarations}
    yield "take the cutoff"
    staged: dict[Declaration, Counter[int]] = {}
    cutoffs: dict[str, int] = {}
    for source in sorted({declaration.source for declaration in declarations}):
        cutoff = last_sequence(model.progress[source].rows)
        yield "read events"
        events = model.events[source].rows
        if not model.holds("a cutoff is never beyond progress"):
            cutoff = max([cutoff, *(event.sequence for event in events)])
        cutoffs[source] = cutoff - (not model.holds("a cutoff is what was counted"))
        counted = _first_of_each_id(
            model, [event for event in events if event.sequence <= cutoff and event.hour in hours]
        )
        staged |= {
            d: Counter({tile.hour: tile.value for tile in tiles(d, counted)})
            for d in declarations
            if d.source == source
        }
    if not model.holds("handles are opened before the cutoff is taken"):
        yield "open coverage and final"
        coverage, final = (
            model.open(model.coverage),
            {declaration: model.open(model.final[declaration]) for declaration in declarations},
        )
    fresh: dict[tuple[Declaration, int], Cut] = {}
    for declaration, handle in final.items():
        published = pinned(declaration, coverage.rows)
        if handle.version != published and model.holds("final is restored to what is published"):
            yield "restore final"
            handle.commit(lambda there, before=handle.table.versions[published]: before)  # type: ignore[misc]
        yield "overwrite final"
        rows = dict(staged[declaration])
        handle.commit(lambda there, rows=rows: {h: v for h, v in there.items() if h not in hours} | rows)  # type: ignore[misc]
        fresh |= {(declaration, hour): (cutoffs[declaration.source], handle.version) for hour in hours}
    yield "overwrite coverage"
    coverage.commit(lambda there: {**there, **fresh})


def _first_of_each_id(model: Model, events: Iterable[Event]) -> list[Event]:
    if not model.holds("each id counts once in final"):
        return [event._replace(duplicate=False) for event in events]
    firsts: dict[object, Event] = {}
    for event in sorted(events):
        firsts.setdefault(
            event.address if event.id is None else (event.hour, event.id, "id"), event._replace(duplicate=False)
        )
    return list(firsts.values())
