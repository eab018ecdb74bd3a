"""The facts that the audit knows of each hour, to be compared: counts of the archive by DuckDB, and of the tiles.

What the fold has counted of the events is in ``batch_layer.hour_totals``.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import FROM_HOUR, stored_names
from hourline_core.ledger.progress import BYTES_WRITER
from hourline_core.model import Metric, Source
from hourline_core.model.decoding import BYTES_ALONE
from hourline_core.model.expectation import columns_of
from hourline_core.model.hours import time_text
from hourline_core.model.scratch_columns import DECODING
from hourline_core.model.windows import HOURLY
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import values_sql, without_lists


@dataclass(frozen=True)
class ArchivedCounts:
    """The archived events of each hour (UTC), counted by DuckDB. An hour without events is left out."""

    events: Mapping[datetime, int]
    """Without duplicates."""
    duplicates: Mapping[datetime, int]
    strays: Mapping[datetime, int]
    """Those whose event time is not in the hour."""
    without: Mapping[str, Mapping[datetime, int]]
    """By required field of the source, those in which it is null."""
    decoded: "DecodedCounts | None" = None
    """What became of those that other declarations have made. None: there are none."""

    def all_events(self, hour: datetime) -> int:
        """The number of events of ``hour`` by today's declaration, with duplicates."""
        arrived = self.events.get(hour, 0) + self.duplicates.get(hour, 0)
        return arrived if self.decoded is None else arrived - self.decoded.others.get(hour, 0) + self.decoded.now[hour]


@dataclass(frozen=True)
class DecodedCounts:
    """The account of decoding anew, by hour (UTC), with duplicates: what was in the hour is kept, has moved to another
    hour or is rejected; what is in it was kept, has moved in from another hour or is accepted now.
    """

    others: Mapping[datetime, int]
    """The archived events that other declarations have made, as far as there are the bytes of their records."""
    kept: Counter[datetime]
    moved_out: Counter[datetime]
    dropped: Counter[datetime]
    """Those that are no events any more."""
    moved_in: Counter[datetime]
    added: Counter[datetime]
    """Those that were none before."""

    @property
    def accounted(self) -> Counter[datetime]:
        """The archived events that the account knows."""
        return self.kept + self.moved_out + self.dropped

    @property
    def now(self) -> Counter[datetime]:
        """The events of now that were decoded anew."""
        return self.kept + self.moved_in + self.added


def count_in_spans(
    connection: duckdb.DuckDBPyConnection, source: Source, hours: Sequence[datetime], spans: Iterable[tuple[int, int]]
) -> dict[datetime, int]:
    """By hour of ``hours``, which are sorted, the number of archived events whose sequences are in ``spans``,
    without duplicates.
    """
    within = " OR ".join(f"sequence BETWEEN {first} AND {last}" for first, last in spans)
    rows = connection.execute(f"""
        SELECT hour, count(*) FROM hourline.events_{source.name}
        WHERE hour BETWEEN {literal(hours[0])} AND {literal(hours[-1])} AND ({within})
          AND NOT duplicate
        GROUP BY hour""").fetchall()
    return dict(rows)


def count_archived(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    hours: Sequence[datetime],
    cutoff: int,
    decoded: "DecodedCounts | None" = None,
    standing: Sequence[str] | None = None,
) -> ArchivedCounts:
    """Count the archived events in ``hours``, which are sorted, up to the sequence ``cutoff``. ``standing`` are the
    decodings whose events count as they are archived; None: those of all do. ``decoded`` is the account of the others.

    Tasks compute the results, and are not asked: what they may have missed in the archive shows here.
    """
    size = f"INTERVAL '{int(HOURLY.size.total_seconds())} seconds'"
    table = f"hourline.events_{source.name}"
    columns = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
    there = {name.casefold() for name in columns}
    names = stored_names(source, columns)
    stored = {name: names.get(name, name) for name in source.required_fields}
    # What is required now may be null in an event that another declaration has made.
    of_now = "true" if standing is None else _is_among(standing, there)
    counts = [
        "count(*) FILTER (NOT duplicate)",
        "count(*) FILTER (duplicate)",
        "count(*) = count(event_time) AND min(event_time) >= hour AND max(event_time) < hour + " + size,
        # A field that was declared after the last micro-batch is no column yet.
        *(
            f"count(*) FILTER ({of_now}{f' AND {identifier(column)} IS NULL' if column.casefold() in there else ''})"
            for column in stored.values()
        ),
    ]
    # The bounds let DuckDB skip files. A list costs more for each event than all else.
    chosen = f"hour BETWEEN {literal(hours[0])} AND {literal(hours[-1])}"
    if len(hours) <= (hours[-1] - hours[0]) // HOURLY.size:
        chosen += f" AND hour IN ({', '.join(map(literal, hours))})"
    archived = f"FROM {table} WHERE {chosen} AND sequence <= {cutoff}"
    rows = connection.execute(f"SELECT hour, {', '.join(counts)} {archived} GROUP BY hour").fetchall()
    events, duplicates, within, *without = ({row[0]: row[place] for row in rows} for place in range(1, 1 + len(counts)))
    strays = dict.fromkeys(within, 0)
    if not all(within.values()):
        # To compare each event with its hour takes as long as all other counts.
        stray = f"event_time IS NULL OR event_time < hour OR event_time >= hour + {size}"
        strays |= connection.execute(f"SELECT hour, count(*) {archived} AND ({stray}) GROUP BY hour").fetchall()
    return ArchivedCounts(events, duplicates, strays, dict(zip(stored, without, strict=True)), decoded)


def count_decoded(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    decoded: DeltaTable,
    rejected: DeltaTable,
    decodings: ArchiveDecodings,
    cutoff: int,
) -> DecodedCounts:
    """The account of the table ``decoded`` up to the sequence ``cutoff``, beside the archive that it is about, with the
    table of ``rejected`` records.
    """
    table = f"hourline.events_{source.name}"
    there = {name.casefold() for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}
    others = connection.execute(
        f"SELECT hour, count(*) FROM {table} WHERE sequence <= {cutoff} "
        f"AND NOT {_is_among(decodings.standing, there)} GROUP BY ALL"
    ).fetchall()
    if decodings.lost and rejected.transaction_version(BYTES_WRITER):
        connection.register("_rejected", rejected.to_pyarrow_dataset())
        others += connection.execute(
            f"SELECT hour, count(*) FROM {table} SEMI JOIN (FROM _rejected WHERE coalesce(decoding, '') = "
            f"{literal(BYTES_ALONE)} "
            f'AND sequence <= {cutoff}) USING (topic_id, partition, "offset") '
            f"WHERE {_is_among(decodings.lost, there)} GROUP BY ALL"
        ).fetchall()
        connection.unregister("_rejected")
    connection.register("_decoded", decoded.to_pyarrow_dataset())
    pairs = connection.execute(
        f"SELECT {FROM_HOUR}, hour, count(*) FROM _decoded WHERE sequence <= {cutoff} GROUP BY ALL"
    ).fetchall()
    connection.unregister("_decoded")
    archived: Counter[datetime] = Counter()
    for hour, events in others:
        archived[hour] += events
    counts = DecodedCounts(archived, Counter(), Counter(), Counter(), Counter(), Counter())
    for before, now, events in pairs:
        if before is not None:
            of_before = counts.kept if now == before else counts.dropped if now is None else counts.moved_out
            of_before[before] += events
        if now is not None and now != before:
            (counts.added if before is None else counts.moved_in)[now] += events
    return counts


def _is_among(decodings: Sequence[str], columns: Container[str]) -> str:
    """A condition: the event was made by one of ``decodings``."""
    hash = f"coalesce({DECODING}, '')" if DECODING in columns else "''"
    return f"{hash} IN ({', '.join(map(literal, decodings))})"


def read_result_frame(
    connection: duckdb.DuckDBPyConnection, metric: Metric, tiles: pa.Table
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The finished results of the tiles (hour as text, the dimensions, the measures), and the Arrow types of the
    columns. The frame lacks lists that no expectation about hours reads: of a million groups, they take gigabytes.
    """
    chosen = metric if _reads_lists(metric) else without_lists(metric)
    frame, types = as_frame(_read_values(connection, chosen, tiles, metric.dimensions), metric.dimensions, ["hour"])
    if chosen is not metric:
        _, all_types = as_frame(_read_values(connection, metric, tiles[:0], metric.dimensions), metric.dimensions, [])
        types = all_types | types
    return frame, types


def _reads_lists(metric: Metric) -> bool:
    """Whether an expectation about hours may read the list of a measure: it names it, or is about all columns."""
    lists = metric.measures.keys() - without_lists(metric).measures.keys()
    about_hours = [one.parameters for one in metric.expectations if one.about == "hour"]
    return any(not columns_of(one) or any(name in str(one) for name in lists) for one in about_hours)


def as_frame(
    results: pa.Table, dimensions: Collection[str], times: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Finished results as Great Expectations is given them, and the Arrow types of the columns. The columns ``times``
    are timestamps in UTC, and become text.
    """
    table = pa.table({name: _make_plain(results[name]) for name in results.column_names})
    frame: pd.DataFrame = table.to_pandas()
    for name in times:
        frame[name] = [time_text(moment) for moment in table[name].to_pylist()]
    for name in table.column_names:
        kind = table.schema.field(name).type
        if pa.types.is_nested(kind):  # which cannot be compared for being unique
            frame[name] = frame[name].map(lambda value: None if value is None else str(value))
        elif pa.types.is_integer(kind) and table[name].null_count:  # pandas makes them doubles
            frame[name] = pd.array(table[name].to_pylist(), dtype="Int64")
        elif pa.types.is_floating(kind):  # in which numpy has NaN for null
            values, nulls = table[name].fill_null(0).to_numpy(), table[name].is_null().to_numpy()
            frame[name] = pd.arrays.FloatingArray(values.astype("float64"), nulls)
    return frame, {field.name: "string" if field.name in times else str(field.type) for field in table.schema}


def count_rows_and_groups(
    connection: duckdb.DuckDBPyConnection, aggregation: AggregationPlan, tiles: pa.Table
) -> dict[datetime, tuple[int, int]]:
    """By hour, the number of rows and the number of distinct groups in the tiles."""
    connection.register("_audited", tiles)
    keys = ", ".join(identifier(name) for name in ["hour", *aggregation.metric.tile_columns])
    rows = connection.execute(
        f"SELECT hour, count(*), count(DISTINCT row({keys})) FROM _audited GROUP BY hour"
    ).fetchall()
    return {hour: (rows, groups) for hour, rows, groups in rows}


def compute_totals(
    connection: duckdb.DuckDBPyConnection, metric: Metric, states: pa.Table
) -> dict[datetime, dict[str, Any]]:
    """By hour, the measures over all dimensions."""
    if not metric.measures:
        return {}
    return {row.pop("hour"): row for row in _read_values(connection, metric, states, []).to_pylist()}


def _read_values(
    connection: duckdb.DuckDBPyConnection, metric: Metric, states: pa.Table, dimensions: Iterable[str]
) -> pa.Table:
    connection.register("_audited", states)
    stored = {column: kind for column, kind, *_ in connection.execute("DESCRIBE _audited").fetchall()}
    keys = ", ".join(identifier(name) for name in ["hour", *dimensions])
    rows: pa.Table = connection.execute(
        f"{values_sql(metric, stored, 'FROM _audited', dimensions)} ORDER BY {keys}"
    ).to_arrow_table()
    return rows


def _make_plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as whole numbers where that is exact, else as doubles. pandas has no decimals of its own."""
    if not pa.types.is_decimal(column.type):
        return column
    if column.type.scale == 0:
        with suppress(pa.ArrowInvalid):  # beyond 64 bits
            return column.cast(pa.int64())
    return column.cast(pa.float64())
