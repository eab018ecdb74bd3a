"""The tables of the inputs of a derived source, and how far it has read them."""

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from hourline_core.errors import SourceError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from hourline_core.storage.opening import open_table


@dataclass(frozen=True)
class Input:
    """The tables of one input, at the version that they are open at."""

    source: Source
    progress: Progress
    events: DeltaTable

    @property
    def topic_id(self) -> str:
        """What the progress of the derived source calls the input: tables in the place of these have another id."""
        return str(self.progress.table.metadata().id)


def open_inputs(project: Project, source: Source) -> list[Input]:
    """The inputs of the derived ``source``, in their order. They are one object if it is joined with itself, since both
    sides are read up to the same sequence. Raises TableError.
    """
    opened = {name: open_input(project, one) for name, one in {one.name: one for one in source.inputs}.items()}
    return [opened[one.name] for one in source.inputs]


def open_input(project: Project, source: Source) -> Input:
    """``source`` as an input. Raises TableError."""
    layout, options = Layout.of(project), project.settings.storage_options
    progress = Progress(open_table(layout.progress(source), options))
    return Input(source, progress, open_table(layout.events(source), options))


def refuse_other_inputs(source: Source, progress: Progress, inputs: Sequence[Input]) -> None:
    """Raise SourceError if the ``progress`` of the derived ``source`` has read other tables than these ``inputs``,
    or further in them than they reach.
    """
    read = progress.last_read().topic_ids
    up_to = sequences_read(progress, inputs)
    for one, sequence in zip(inputs, up_to, strict=True):
        if one.progress.sequence < sequence:
            # Its next micro-batches would have sequences that count as read.
            raise SourceError(
                f"the tables of source '{one.source.name}' end at sequence {one.progress.sequence:,}, and source "
                f"'{source.name}' has read them up to {sequence:,}: they are an older copy; restore the newest one, "
                f"or let all events of '{source.name}' be made anew: `hourline reset {source.name}`"
            )
        if 0 < sequence < one.progress.began_anew_at:
            raise SourceError(
                f"all events of source '{one.source.name}' were made anew since source '{source.name}' has read it; "
                f"let those of '{source.name}' be made anew, too: `hourline reset {source.name}`"
            )
        if read.get(one.source.name, one.topic_id) != one.topic_id:
            raise SourceError(
                f"the tables of source '{one.source.name}' are others than those that source '{source.name}' has "
                f"read up to now: restore them from a backup, or let all events of '{source.name}' be made anew: "
                f"`hourline reset {source.name}`"
            )


def sequences_read(progress: Progress, inputs: Sequence[Input]) -> list[int]:
    """By input, the sequence up to which the ``progress`` of a derived source has read it."""
    readings = progress.readings([one.topic_id for one in inputs])
    return [readings[one.topic_id].next_offsets.get(0, 1) - 1 for one in inputs]


def new_rows(inputs: Sequence[Input], after: Sequence[int]) -> list[list[ProgressRow]]:
    """The rows of the newest progress of each input above the sequence in ``after``, in order. Both sides of a
    self-join have the same ones. Raises TableError.
    """
    for one in {one.source.name: one for one in inputs}.values():
        one.progress.table.update_incremental()
    return [
        one.progress.rows(since, one.progress.sequence) if one.progress.sequence > since else []
        for one, since in zip(inputs, after, strict=True)
    ]


def split_rows(rows: Sequence[ProgressRow], most: int) -> list[ProgressRow]:
    """The first ``rows`` of progress, whole sequences with at most ``most`` events that are accepted or taken back; at
    least one sequence.
    """
    taken: list[ProgressRow] = []
    events = 0
    for row in rows:
        more = row.counts.accepted + sum(hour.events for hour in row.taken_back)
        if taken and row.sequence != taken[-1].sequence and events + more > most:
            break
        taken.append(row)
        events += more
    return taken
