"""The page of all tables and views, from their schemas."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from docs.generate.markdown import code, heading, prose, table
from docs.generate.markdown import page as whole_page
from docs.generate.view_columns import VIEW_COLUMNS
from hourline_core.aggregates import aggregate_of
from hourline_core.ledger.columns import Columns
from hourline_core.ledger.coverage_rows import COVERAGE_COLUMNS
from hourline_core.ledger.findings import RECORDED_COLUMNS
from hourline_core.ledger.layout import (
    CHECKSUM_COLUMNS,
    CONFIRMATION_COLUMNS,
    DRIFT_COLUMNS,
    EVENT_COLUMNS,
    QUALITY_COLUMNS,
    QUARANTINE_COLUMNS,
    REJECTED_COLUMNS,
)
from hourline_core.ledger.progress_columns import PROGRESS_COLUMNS
from hourline_core.model import Measure, Project, Settings
from hourline_core.model.measure_text import EXAMPLES, KINDS
from serving_layer.connection import Connection

_INTRODUCTION = """
Hourline keeps Delta tables below the root `tables`, and offers views over them. [Query the results](../guides/query.md)
shows how to use the views. All times are timestamps in UTC with microseconds. Every column of a table may be null.
"""

_METRIC_TABLES = """
`DECLARATION` is the hash of the metric's declaration. A changed declaration has other columns and other numbers, so it
has tables of its own. The columns are `hour`, the dimensions, and the states of the measures. If the metric has windows
that begin within an hour, `pane` after `hour` is the start of the part of the hour. `provisional` also has `sequence`,
the number of the micro-batch. Its rows are added and never updated. `final` has one row per hour (or pane) and
dimensions, and only the version that coverage names counts. `staged` holds what a recompute computed before its audit.
"""

_METRIC_VIEWS = """
`METRIC` has `hour`, the dimensions, the finished measures and `state`. With a `window`, it has `window_start` and
`window_end` in place of `hour`, and `METRIC_hours` has the rows by the hour. `METRIC_states` has the state columns of
the measures instead. `METRIC_final` and `METRIC_provisional` hold what each layer contributes. `METRIC_staged` holds
the rows of blocked hours, with `cutoff`. `events_SOURCE` and `rejected_SOURCE` are the tables of the records, up to the
last finished micro-batch, and so is `quarantine_SOURCE`, if a metric of the source has a class.
"""

_TABLES: Mapping[str, tuple[str, Columns]] = {
    "events/SOURCE": (
        "Every accepted event, and every duplicate that the speed layer has recognised. The declared fields follow "
        "these columns, under their own names.",
        EVENT_COLUMNS,
    ),
    "quarantine/SOURCE": (
        "Every event that a class of a metric failed for. There is such a table if a metric of the source has a class.",
        QUARANTINE_COLUMNS,
    ),
    "rejected/SOURCE": ("Every record that did not pass validation, with its bytes and the reason.", REJECTED_COLUMNS),
    "progress/SOURCE": (
        "One row per topic of each finished micro-batch, import or reset. The rows of a micro-batch share `sequence`, "
        "`metrics`, `clock` and the times. Their commit finishes it. Maintenance compacts old rows into sums.",
        PROGRESS_COLUMNS,
    ),
    "coverage": (
        "One row per covered or blocked hour of a metric, and rows about a declaration as a whole. Its commit is the "
        "publication.",
        COVERAGE_COLUMNS,
    ),
    "drift": ("One row per recomputed hour and measure: by how much it changed, and why.", DRIFT_COLUMNS),
    "quality": ("One row per recomputed hour and expectation: what the audit found.", QUALITY_COLUMNS),
    "confirmations": ("One row per gap that a person has confirmed.", CONFIRMATION_COLUMNS),
    "findings": (
        "One row per finding about a source or the speed layer, since a run of the batch layer has found it first.",
        RECORDED_COLUMNS,
    ),
    "checksums": ("One row per data file, as `hourline verify` saw it first.", CHECKSUM_COLUMNS),
}

_VIEWS = {
    "hours": "One row per hour, also per empty hour, of each source and of each metric.",
    "long_silences": "One row per long silence: closed empty hours of a source that are too many for `hours`.",
    "windows": "One row per window of each metric that declares windows other than hours.",
    "late_events": "One row per event that arrived after its hour had closed.",
    "drift": "One row per recomputed hour, measure and cause. `cause` is null where nothing changed.",
    "publications": "One row for each time that an hour of a metric was published. No row is ever deleted.",
    "findings": "One row per finding about a source or the speed layer that is open now, or was closed within "
    "`batch.reports_kept`. Each query looks again. With `--as-of` there is none.",
    "quality": "One row per recomputed hour and expectation, as in the table.",
}


def page() -> str:
    """The page as Markdown."""
    return whole_page(
        "Tables",
        "hourline_core/ledger, hourline_core/aggregates and docs/generate",
        prose(_INTRODUCTION),
        heading(2, "Tables of a project"),
        *(text for name, (about, columns) in _TABLES.items() for text in _table(name, about, columns)),
        heading(3, "provisional, final and staged"),
        "Their paths are `provisional/METRIC/DECLARATION`, `final/METRIC/DECLARATION` and `staged/METRIC/DECLARATION`.",
        prose(_METRIC_TABLES),
        table(["measure", "state columns of a measure called `m`"], _states()),
        heading(2, "Views"),
        prose(_METRIC_VIEWS),
        *_views(),
    )


def _table(name: str, about: str, columns: Columns) -> list[str]:
    rows = [(code(column), code(_type(one.type)), one.meaning) for column, one in columns.items()]
    return [heading(3, name), prose(about), table(["column", "type", "meaning"], rows)]


def _views() -> Iterator[str]:
    """The views that every project has. Raises LookupError if one of them has no description."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Connection(Project(Path(folder), Settings(name="hourline"), {}, {})) as connection,
    ):
        abouts = _complete(_VIEWS, connection.views, "the views")
        for name in connection.views:
            columns = connection.database.execute(f"DESCRIBE {name}").fetchall()
            meanings = _complete(VIEW_COLUMNS[name], [column for column, *_ in columns], name)
            rows = [(code(column), code(kind), meanings[column]) for column, kind, *_ in columns]
            yield from (heading(3, f"The view {name}"), abouts[name], table(["column", "type", "meaning"], rows))


def _states() -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        measure = Measure.parse(EXAMPLES[kind])
        yield code(measure), ", ".join(map(code, aggregate_of(measure).columns("m"))) or "none"
    yield "a class in `measures/`", f"{code('m')}, of its `state_type`"
    yield "a class in `folds/`", f"{code('m')}, list of structs: its first events; {code('m__n')}, bigint: their number"


def _complete(meanings: Mapping[str, str], names: list[str], of: str) -> Mapping[str, str]:
    """``meanings``. Raises LookupError unless there is one for each name, and no other."""
    if different := set(meanings) ^ set(names):
        raise LookupError(f"{of}: described or there, not both: {', '.join(sorted(different))}")
    return meanings


def _type(kind: pa.DataType) -> str:
    """A type as DuckDB and Spark write it."""
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_type(kind.key_type)}, {_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_type(field.type)}' for field in kind)}>"
    names = {"int64": "bigint", "int32": "int", "bool": "boolean"}
    return "timestamp" if pa.types.is_timestamp(kind) else names.get(str(kind), str(kind))
