"""Plans a join: what tasks read of the archive of each input, and what a pair of events becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.compute.joined_inputs import find_unfit_inputs, translate_for_join
from hourline_core.errors import DeclarationError, SourceError
from hourline_core.ledger.decode_records import needs_no_spark
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout, archived_names
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, Source
from hourline_core.model.decoding import Decoding, decides_otherwise
from hourline_core.model.scratch_columns import (
    DUPLICATE,
    EVENT_TIME,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    SEQUENCE,
    TOPIC_ID,
)
from hourline_core.sql.literals import identifier

ADDRESS = (TOPIC_ID, PARTITION, OFFSET, PLACE)


@dataclass(frozen=True)
class SidePlan:
    """What tasks read of one input."""

    source: str
    archive: str
    """The address of its events table."""
    storage_options: Mapping[str, str] = field(repr=False)
    columns: Mapping[str, str]
    """What is read of an event that may have a partner, by Hourline's names, with the name of each in the archive."""
    identity_columns: Mapping[str, str]
    """What is read of an event that may be the first of its id."""
    types: Mapping[str, pa.DataType]
    """By column, as it is archived."""
    key: Sequence[str]
    """The fields of the key, in the order of the join."""
    identity: str | None
    """Its id in DuckDB's SQL. None: it has none."""
    where: str | None
    """The condition under which an event counts, in DuckDB's SQL. None: each one does."""
    fields: Mapping[str, str]
    """By field of the joined source, the column that it is made of."""
    anew: "DecodedAnew | None" = None
    """How events are decoded that another declaration of the input has archived. None: there are none."""


@dataclass(frozen=True)
class DecodedAnew:
    """Archived events that other declarations of their source have made, with other fields."""

    source: Source
    before: Sequence[Decoding]
    """The decodings of these declarations."""
    up_to: int
    """The last sequence that may have some."""
    keeps_rejected: bool
    """Whether those that are rejected now are partners all the same. They were joined, so the others of a left or full
    join have had a partner.
    """


@dataclass(frozen=True)
class JoinPlan:
    """A join of two inputs."""

    sides: tuple[SidePlan, SidePlan]
    """Left and right."""
    fields: Sequence[str]
    """The fields of a joined event, in the order of their declaration."""
    before: timedelta
    after: timedelta
    """How much earlier, and later, than the left event the right one may be."""
    outer: tuple[bool, bool] = (False, False)
    """Whether events of each side are joined without a partner, too."""


@dataclass(frozen=True)
class Input:
    """The tables of one input of a join, at the version that they are open at."""

    source: Source
    progress: Progress
    events: DeltaTable

    @property
    def topic_id(self) -> str:
        """What the progress of the joined source calls the input: tables in the place of these have another id."""
        return str(self.progress.table.metadata().id)


def plan_join(project: Project, source: Source, inputs: Sequence[Input]) -> JoinPlan:
    """The plan of the joined ``source``. Raises DeclarationError if DuckDB does not compute an expression that decides
    which events of an input count. Raises SourceError if an archive has events that another declaration has made.
    """
    assert source.join, "it is joined"
    layout, on = Layout.of(project), source.join.on
    for _, mistake in find_unfit_inputs(source):
        raise DeclarationError(f"source '{source.name}' cannot be joined: {mistake}")
    left, right = inputs
    keys = ([*on], [*on.values()])
    outer, within = source.join.outer, source.join.within
    sides = (
        _plan_side(layout, source, left, keys[0], outer=outer[0]),
        _plan_side(layout, source, right, keys[1], outer=outer[1]),
    )
    return JoinPlan(sides, source.event_fields, within.before, within.after, outer)


def _plan_side(layout: Layout, joined: Source, side: Input, key: Sequence[str], *, outer: bool) -> SidePlan:
    source = side.source
    there = pa.schema(side.events.schema().to_arrow())
    archived = archived_names(source, there.names) | {DUPLICATE: "duplicate"}
    own = [HOUR, SEQUENCE, EVENT_TIME, DUPLICATE]
    own += ADDRESS if source.id or outer else ()
    columns = {name: archived[name] for name in (*own, *source.event_fields)}
    identity = translate_for_join(source, source.id) if source.id else None
    of_identity = [name for name in (EVENT_TIME, *source.event_fields) if identifier(name) in (identity or "")]
    identity_columns = {name: archived[name] for name in (HOUR, SEQUENCE, *ADDRESS, *of_identity)}
    event_time, *names = (name for name, _ in joined.joined_names(source))
    return SidePlan(
        source.name,
        side.events.table_uri,
        layout.storage_options,
        columns,
        identity_columns,
        {name: there.field(stored).type for name, stored in {**columns, **identity_columns}.items()},
        key,
        identity,
        translate_for_join(source, source.where) if source.where else None,
        {event_time: EVENT_TIME, **dict(zip(names, source.event_fields, strict=True))},
        _plan_decoding(joined, source, ArchiveDecodings.of(side.events, source)),
    )


def _plan_decoding(joined: Source, source: Source, decodings: ArchiveDecodings) -> DecodedAnew | None:
    """How tasks decode the events of other declarations, as long as these have other fields alone. Another event time
    would be in other hours. Raises SourceError.
    """
    others = decodings.others
    if not others:
        return None
    if (
        not all(one.raw for one in others)
        or any(decides_otherwise(one, decodings.now) for one in others)
        or not needs_no_spark(source, others)
    ):
        changes = "; ".join(decodings.describe_changes())
        raise SourceError(
            f"source '{joined.name}' cannot join '{source.name}', whose archive has events that another declaration "
            f"has made ({changes}): declare '{source.name}' as it was when they were archived, or declare it under "
            "another name, and join that"
        )
    ends = [last for _, last in decodings.sequences_of([one.hash for one in others]) if last is not None]
    return DecodedAnew(source, others, max(ends, default=0), keeps_rejected=joined.takes_back)
