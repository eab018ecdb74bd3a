"""Plans how tasks fold the archived events of a source, and how they read them without Spark."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from batch_layer.folding.files import FileQuery, can_query
from batch_layer.hour_totals import doubles, rows_schema, without_sketches
from hourline_core.aggregates import aggregate_of
from hourline_core.aggregates.user_defined import user_defined_of
from hourline_core.compute.lookup_columns import NO_LOOKUPS, NativeLookup, Pinned, native_lookups
from hourline_core.compute.native_expressions import translate_all
from hourline_core.compute.projection import ProjectedMetric, Projection
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import archived_names
from hourline_core.model import Metric, Source
from hourline_core.model.expressions import column_names
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    ID,
    IS_FIRST,
    OFFSET,
    PARTITION,
    PLACE,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC,
    TOPIC_ID,
)
from hourline_core.sql.literals import identifier
from hourline_core.storage.data_files import local_folder

_TOPICS = ("topic_id", "topic")
ADDRESS = (TOPIC_ID, PARTITION, OFFSET, PLACE)
"""Within a micro-batch, events are in the order of these."""


@dataclass(frozen=True)
class FoldedMetric:
    """A metric as tasks fold it."""

    tiles: ProjectedMetric
    totals: ProjectedMetric
    """The same by hour alone, of the measures whose value over an hour can be computed in two ways, by Arrow
    (totals.py): it decides by conditions of its own which events count, so that the audit finds a fault in either.
    """
    doubles: Mapping[str, str]
    """The measures that add doubles, with the columns that these are in."""


class LookedUpColumns(NamedTuple):
    """Boolean columns of events that say what they met in a lookup."""

    null_key: str
    """Whether a part of the key is null."""
    no_row: str
    """Whether the event has no row, for this or another reason."""


@dataclass(frozen=True)
class FoldPlan:
    """How tasks fold the archived events of ``source``."""

    source: Source
    required: Sequence[str]
    """The required fields of the source."""
    conditions: Sequence[str]
    """Of an event that counts, these columns are true: that it is the first of its id, and the source's ``where``. They
    are the first conditions of each metric.
    """
    metrics: Mapping[str, FoldedMetric]
    lookups: Mapping[str, "LookedUpColumns"] = field(default_factory=dict)
    """By what the source calls it, each lookup that the metrics name."""

    @property
    def columns(self) -> list[str]:
        """The columns that events need, in the order of their names."""
        needed = {*self.columns_of_totals, *((ID, SEQUENCE, *ADDRESS) if self.source.id else ())}
        for metric in self.metrics.values():
            needed |= {*metric.tiles.conditions, *metric.tiles.keys.values(), *chain(*metric.tiles.values.values())}
            if user_defined_of(metric.tiles.aggregation.metric):  # An event that it fails for is told by its address.
                needed |= {TOPIC, *ADDRESS}
        return sorted(needed - {IS_FIRST})

    @property
    def columns_of_totals(self) -> set[str]:
        """Those that totals and counts need."""
        needed = {HOUR, *self.required, *chain(*self.lookups.values()), *self.conditions}
        for metric in self.metrics.values():
            needed |= {*metric.totals.conditions, *chain(*metric.totals.values.values())}
        return needed - {IS_FIRST}

    @property
    def is_exact(self) -> bool:
        """Whether each measure has a small state, which DuckDB alone computes, so that no event can fail."""
        metrics = [metric.tiles.aggregation.metric for metric in self.metrics.values()]
        return all(aggregate_of(of).is_exact for metric in metrics for of in metric.stored_measures.values())


@dataclass(frozen=True)
class ReadPlan:
    """How tasks read events from the archive, and compute the columns of a FoldPlan."""

    archive: str
    """The address of the events table."""
    storage_options: Mapping[str, str] = field(repr=False)
    columns: Mapping[str, str]
    """The columns that are read, with their names in the archive."""
    schema: pa.Schema
    """These columns as they are archived, and as they are read."""
    expressions: Mapping[str, str]
    """The columns that are computed of them, in DuckDB's SQL. ID is among them if the source has one."""
    hours: Sequence[datetime]
    """In order (UTC)."""
    cutoff: int
    """The sequence up to which events are read."""
    lookups: Sequence[NativeLookup] = ()
    """Those whose columns the expressions need."""
    pinned: Pinned = field(default_factory=dict)
    """The versions of them."""
    files: FileQuery | None = None
    """How DuckDB reads the events that it folds. The columns above are those of the totals then. None: they are those
    of all, and tiles are folded from them as well.
    """


def plan_fold(source: Source, projection: Projection) -> FoldPlan:
    """The plan for the metrics of ``projection``."""
    first = (IS_FIRST,) if source.id else ()
    where = next(iter(projection.metrics.values())).conditions[:1] if source.where else ()
    return FoldPlan(
        source,
        list(source.required_fields),
        (*first, *where),
        {one.aggregation.metric.name: _folded(one, first) for one in projection.metrics.values()},
        {
            name: LookedUpColumns(f"{SCRATCH_PREFIX}null_key_{name}", f"{SCRATCH_PREFIX}no_row_{name}")
            for name in _named_lookups(source, projection)
        },
    )


def looked_up_expressions(plan: FoldPlan) -> dict[str, str]:
    """The columns of the lookups of ``plan``, in Spark SQL over the events of its source."""
    found = {}
    for name, columns in plan.lookups.items():
        keys = [f"({text}) IS NULL" for text in plan.source.lookups[name].key]
        found[columns.null_key] = " OR ".join(keys)
        # No row has a null in its key.
        found[columns.no_row] = f"{name}.{plan.source.lookup_of(name).key[0]} IS NULL"
    return found


def _named_lookups(source: Source, projection: Projection) -> list[str]:
    """The lookups that the expressions of the metrics name."""
    named = {name for _, text in projection.expressions.values() for name in column_names(text)}
    for field_name, text in reversed(source.derived.items()):  # A derived field may use earlier ones.
        if field_name.casefold() in named:
            named |= column_names(text)
    return [name for name in source.lookups if name.casefold() in named]


def plan_read(
    plan: FoldPlan,
    projection: Projection,
    archive: DeltaTable,
    storage_options: Mapping[str, str],
    hours: Sequence[datetime],
    cutoff: int,
    pinned: Pinned = NO_LOOKUPS,
) -> ReadPlan | None:
    """How tasks read the events of ``plan``, of ``hours`` of the version that ``archive`` is open at. ``pinned`` are
    the lookups of the source. None: Spark has to evaluate what is needed of them, since DuckDB does not evaluate some
    expression alike, or the events are not all there as today's declaration makes them.
    """
    source = plan.source
    wanted = dict(projection.expressions) | ({ID: (source, source.id)} if source.id else {})
    wanted |= {name: (source, text) for name, text in looked_up_expressions(plan).items()}
    expressions = translate_all(wanted)
    there = pa.schema(archive.schema().to_arrow())
    if expressions is None or ArchiveDecodings.of(archive, source).others or PLACE not in there.names:
        return None
    lookups = native_lookups(source, expressions.values())
    if lookups is None:
        return None
    known, files, needed = archived_names(source, there.names), None, {SEQUENCE, *plan.columns}
    columns = _needed_columns(known, needed, [*expressions.values(), *chain(*(lookup.keys for lookup in lookups))])
    columns |= {EVENT_TIME: known[EVENT_TIME]} if lookups else {}
    if not {*columns.values()} <= {*there.names}:
        return None
    folder = local_folder(archive.table_uri)
    if folder and can_query(folder, there) and plan.is_exact and not (source.id or lookups):
        files = FileQuery(folder, columns, pa.schema([there.field(of) for of in columns.values()]), expressions)
        needed = {SEQUENCE, *plan.columns_of_totals}
        expressions = {name: sql for name, sql in expressions.items() if name in needed}
        columns = _needed_columns(known, needed, expressions.values())
    schema = pa.schema([_as_read(there.field(of)) for of in columns.values()])
    options = storage_options
    return ReadPlan(archive.table_uri, options, columns, schema, expressions, hours, cutoff, lookups, pinned, files)


def _needed_columns(known: Mapping[str, str], needed: Collection[str], expressions: Iterable[str]) -> dict[str, str]:
    """Of the ``known`` columns, those that are ``needed`` themselves or by ``expressions``."""
    texts = list(expressions)
    return {name: of for name, of in known.items() if name in needed or any(identifier(name) in sql for sql in texts)}


def _as_read(column: pa.Field) -> pa.Field:
    """Topics, of which there are a few, come as dictionaries. A copy of their names for each event takes longer."""
    return column.with_type(pa.dictionary(pa.int32(), column.type)) if column.name in _TOPICS else column


def _folded(tiles: ProjectedMetric, first: tuple[str, ...]) -> FoldedMetric:
    plan = tiles.aggregation
    metric: Metric = without_sketches(plan.metric)
    values = {name: tiles.values[name] for name in metric.stored_measures}
    conditions = (*first, *tiles.conditions)
    return FoldedMetric(
        replace(tiles, conditions=conditions),
        replace(
            tiles,
            aggregation=replace(plan, metric=metric, schema=rows_schema(plan)),
            conditions=conditions,
            keys={},
            values=values,
        ),
        {name: values[name][0] for name in doubles(plan)},
    )
