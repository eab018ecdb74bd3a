"""Plans a join: what tasks read of the archive of each input, and what a pair of events becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from hourline_core.compute.derived_inputs import find_unfit_inputs, translate_input, translate_key
from hourline_core.errors import DeclarationError
from hourline_core.ledger.layout import archived_names
from hourline_core.model import Project, Source
from hourline_core.model.join import JoinSide
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, SEQUENCE
from hourline_core.sql.literals import identifier
from speed_layer.derived.decoding import DecodedAnew, plan_decoding
from speed_layer.derived.inputs import Input
from speed_layer.derived.read_events import ADDRESS


@dataclass(frozen=True)
class SidePlan:
    """What tasks read of one input."""

    source: str
    name: str
    """What the join calls it."""
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
    """The parts of the key in DuckDB's SQL, in the order of the join."""
    identity: str | None
    """Its id in DuckDB's SQL. None: it has none."""
    where: str | None
    """The condition under which an event counts, in DuckDB's SQL. None: each one does."""
    fields: Mapping[str, str]
    """By field of the joined source, the column that it is made of."""
    anew: DecodedAnew | None = None
    """How events are decoded that another declaration of the input has archived. None: there are none."""
    id_taken_back: str | None = None
    """The id by which its events are taken back, in DuckDB's SQL. None: none are."""


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
    timed_by: tuple[bool, bool] = (False, False)
    """Whether a pair has the event time of each side. Neither: the later one."""

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are the same events. None of them is its own partner."""
        return self.sides[0].source == self.sides[1].source

    @property
    def inputs_take_back(self) -> bool:
        """Whether events of an input may be taken back."""
        return any(side.id_taken_back for side in self.sides)

    @property
    def same_key(self) -> bool:
        """Whether an event has the same key on both sides."""
        return self.is_self_join and set(self.sides[0].key) == set(self.sides[1].key)


def plan_join(project: Project, source: Source, inputs: Sequence[Input]) -> JoinPlan:
    """The plan of the joined ``source``. Raises DeclarationError if DuckDB does not compute an expression that decides
    which events of an input count. Raises SourceError if an archive has events that another declaration has made.
    """
    assert source.join, "it is joined"
    join = source.join
    for _, mistake in find_unfit_inputs(source):
        raise DeclarationError(f"source '{source.name}' cannot be joined: {mistake}")
    keys = ([*join.on], [*join.on.values()])
    left, right = (
        _plan_side(project, source, declared, one, key, addressed=outer or source.takes_back or len(join.inputs) == 1)
        for declared, one, key, outer in zip(join.sides, inputs, keys, join.outer, strict=True)
    )
    return JoinPlan(
        (left, right), source.event_fields, join.within.before, join.within.after, join.outer, join.timed_by
    )


def _plan_side(
    project: Project, joined: Source, declared: JoinSide, side: Input, key: Sequence[str], *, addressed: bool
) -> SidePlan:
    source = side.source
    there = pa.schema(side.events.schema().to_arrow())
    archived = archived_names(source, there.names) | {DUPLICATE: "duplicate"}
    own = [HOUR, SEQUENCE, EVENT_TIME, DUPLICATE]
    own += ADDRESS if source.id or addressed else ()
    columns = {name: archived[name] for name in (*own, *source.event_fields)}
    identity = None if source.takes_back else _translate(source, source.id)
    of_identity = [name for name in (EVENT_TIME, *source.event_fields) if identifier(name) in (identity or "")]
    identity_columns = {name: archived[name] for name in (HOUR, SEQUENCE, *ADDRESS, *of_identity)}
    event_time, *names = (name for name, _ in declared.joined_names(source.event_fields))
    return SidePlan(
        source.name,
        declared.name,
        side.events.table_uri,
        project.settings.storage_options,
        columns,
        identity_columns,
        {name: there.field(stored).type for name, stored in {**columns, **identity_columns}.items()},
        [native.typed_sql for text in key if (native := translate_key(source, text))],
        identity,
        _translate(source, source.where),
        {event_time: EVENT_TIME, **dict(zip(names, source.event_fields, strict=True))},
        plan_decoding(project, joined, side),
        _translate(source, source.id) if source.takes_back else None,
    )


def _translate(source: Source, text: str | None) -> str | None:
    native = translate_input(source, text) if text else None
    return native.sql if native else None
