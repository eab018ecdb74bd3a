"""The tables of a join's inputs, and how far a joined source has read them."""

from collections.abc import Sequence

from hourline_core.errors import SourceError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from hourline_core.storage.opening import open_table
from speed_layer.joins.plan import Input


def open_inputs(project: Project, source: Source) -> list[Input]:
    """The inputs of the joined ``source``, left and right. Raises TableError."""
    layout = Layout.of(project)
    options = layout.storage_options
    return [
        Input(one, Progress(open_table(layout.progress(one), options)), open_table(layout.events(one), options))
        for one in source.inputs
    ]


def refuse_other_inputs(source: Source, progress: Progress, inputs: Sequence[Input]) -> None:
    """Raise SourceError if the ``progress`` of the joined ``source`` has read other tables than these ``inputs``, or
    further in them than they reach.
    """
    read = progress.last_read().topic_ids
    up_to = sequences_read(progress, inputs)
    for one, sequence in zip(inputs, up_to, strict=True):
        if one.progress.sequence < sequence:
            # Its next micro-batches would have sequences that count as joined.
            raise SourceError(
                f"the tables of source '{one.source.name}' end at sequence {one.progress.sequence:,}, and source "
                f"'{source.name}' has joined them up to {sequence:,}: they are an older copy; restore the newest one, "
                f"or give source '{source.name}' another name: under this, both inputs are joined anew from their "
                "beginning"
            )
        if read.get(one.source.name, one.topic_id) != one.topic_id:
            raise SourceError(
                f"the tables of source '{one.source.name}' are others than those that source '{source.name}' has "
                f"joined up to now: restore them from a backup, or give source '{source.name}' another name: under "
                "this, both inputs are joined anew from their beginning"
            )


def sequences_read(progress: Progress, inputs: Sequence[Input]) -> list[int]:
    """By input, the sequence up to which the ``progress`` of a joined source has read it."""
    readings = progress.readings([one.topic_id for one in inputs])
    return [readings[one.topic_id].next_offsets.get(0, 1) - 1 for one in inputs]


def refresh(one: Input) -> None:
    """Bring the tables of an input to their newest version. Progress comes first: its events are there then."""
    one.progress.table.update_incremental()
    one.events.update_incremental()


def new_rows(one: Input, after: int) -> list[ProgressRow]:
    """The rows of its progress above the sequence ``after``, in order. Raises TableError."""
    sequence = one.progress.sequence
    return one.progress.rows(after, sequence) if sequence > after else []
