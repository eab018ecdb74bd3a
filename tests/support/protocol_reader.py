"""Reading in the protocol's model, and what must hold: at each read, of the accounts at each moment, and when
everything has come to rest.
"""

from typing import Any

from tests.support.protocol_batch import recompute
from tests.support.protocol_model import HOURS, PARTITIONS, SOURCES, Model, Process
from tests.support.protocol_oracle import Declaration, naive
from tests.support.protocol_tables import (
    Coverage,
    Progress,
    Tile,
    last_sequence,
    missing_hours,
    pinned,
    served,
    without_validated_again,
)


def read(model: Model) -> Process:
    """One read of all metrics, which may take its time: returns the value of each metric's hours, those that are
    missing left out.
    """
    for _ in range(10):
        if not model.holds("progress is read before provisional"):
            provisional = {declaration: table.rows for declaration, table in model.provisional.items()}
            yield "read progress"
        progress = {}
        for source in SOURCES:
            progress[source] = model.progress[source].rows
            yield "read progress"
        declared = {metric: list(declarations) for metric, declarations in model.declared.items()}
        coverage = model.coverage.rows
        if model.holds("progress is read before provisional"):
            provisional = {}
            for declaration in [declaration for declarations in declared.values() for declaration in declarations]:
                yield "read provisional"
                provisional[declaration] = model.provisional[declaration].rows
        if model.holds("provisional is read before coverage"):
            yield "read coverage"
            coverage = model.coverage.rows
        yield "look at progress again"
        if not _begin_again(model, progress, coverage):
            break
    else:
        raise AssertionError("a cutoff stays beyond progress")
    answers = {}
    for metric, declarations in declared.items():
        rows = progress[declarations[0].source]
        patient = model.holds("a changed declaration serves once no hour of it is missing")
        declaration = served(metric, rows, coverage, patient) or declarations[0]
        yield "read final"
        answers[metric] = _answer(model, declaration, rows, provisional.get(declaration, ()), coverage)
    return answers


def _begin_again(model: Model, progress: dict[str, Progress], coverage: Coverage) -> bool:
    beyond = any(
        cutoff > last_sequence(progress[declaration.source]) for (declaration, _), (cutoff, _) in coverage.items()
    )
    now = {
        declaration: complete_from
        for source in SOURCES
        for row in model.progress[source].rows[-1:]
        for declaration, complete_from in row.complete_from.items()
    }
    reset = any(
        now.get(declaration) != complete_from
        for rows in progress.values()
        for row in rows[-1:]
        for declaration, complete_from in row.complete_from.items()
    )
    return (beyond and model.holds("a read begins again if a cutoff lies beyond its progress")) or (
        reset and model.holds("a read begins again if a metric was reset")
    )


def _answer(
    model: Model, declaration: Declaration, progress: Progress, provisional: tuple[Tile, ...], coverage: Coverage
) -> tuple[int, dict[int, int]]:
    """The declaration's number and its hours; asserts that each is what the oracle says, or missing, where that may be."""
    sequence = last_sequence(progress)
    cutoffs = {hour: cutoff for (covered, hour), (cutoff, _) in coverage.items() if covered == declaration}
    final = model.final[declaration]
    published = final.versions[pinned(declaration, coverage)] if model.holds("final is read as pinned") else final.rows
    merged = {hour: published.get(hour, 0) for hour in cutoffs}
    for tile in provisional:
        if cutoffs.get(tile.hour, -1) < tile.sequence <= sequence:
            merged[tile.hour] = merged.get(tile.hour, 0) + tile.value
    missing = missing_hours(
        declaration, progress, coverage, None if model.holds("a new metric has hours that are missing") else 0
    )
    assert not missing or declaration.metric in model.excused, f"{declaration}: hours {missing} are missing"
    answers = merged, model.truth[declaration.source].answer(declaration, sequence, cutoffs)
    got, want = ({hour: value for hour, value in answer.items() if value and hour not in missing} for answer in answers)
    assert got == want, f"{declaration} at sequence {sequence}: got {got}, want {want}"
    return declaration.number, got


def read_at_once(model: Model) -> dict[str, tuple[int, dict[int, int]]]:
    """A read that nothing comes between."""
    answers: dict[str, tuple[int, dict[int, int]]] = finish(read(model))
    return answers


def finish(process: Process) -> Any:
    """Let a process run to its end; returns what it returns."""
    while True:
        try:
            next(process)
        except StopIteration as end:
            return end.value


def check_accounts(model: Model) -> None:
    """Every record that was read is accounted for once, and is archived, or kept as rejected, once."""
    for source, truth in model.truth.items():
        progress, last = model.progress[source].rows, last_sequence(model.progress[source].rows)
        want = truth.counts()
        assert {name: sum(row.counts.get(name, 0) for row in progress) for name in want} == want
        assert sorted(
            (row.address, row.sequence) for row in model.events[source].rows if row.sequence <= last
        ) == sorted(truth.sequences.items())
        # What the last micro-batch has validated again may still have to be deleted, by itself or by the next start.
        rejected = tuple(row for row in model.rejected[source].rows if row.sequence <= last)
        kept = [row.address for row in without_validated_again(rejected, model.events[source].rows, last)]
        assert sorted(kept) == sorted(truth.rejected())


def come_to_rest(model: Model) -> dict[str, dict[int, int]]:
    """Read all that is in Kafka and recompute every hour; asserts that each metric is one naive pass over what was
    accepted. Returns the answers.
    """
    for source in SOURCES:
        finish(model.speed(source, most=3))
    for _ in range(2):  # recomputed twice: nothing changes
        finish(recompute(model, list(HOURS), 2, list(model.declared)))
        answers = read_at_once(model)
        check_accounts(model)
        for metric, declarations in model.declared.items():
            truth = model.truth[declarations[-1].source]
            want = naive(declarations[-1], [truth.record(address) for address in truth.sequences])
            assert answers[metric] == (declarations[-1].number, want), (
                f"{metric} at rest: got {answers[metric]}, want {want}"
            )
    return {metric: answer for metric, (_, answer) in answers.items()}


def read_all_again(model: Model) -> None:
    """Reset each source to its earliest record, and kill who reads it again: nothing is counted twice, and nothing was
    ever left out.
    """
    for source in SOURCES:
        finish(model.reset_source(source, dict.fromkeys(PARTITIONS, 0)))
        again = model.speed(source, most=3)
        for _ in range(model.random.randrange(40)):
            next(again, None)
    come_to_rest(model)
    for truth in model.truth.values():
        assert truth.seen == truth.all_addresses()
