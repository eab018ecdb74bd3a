"""What has changed in the results since an earlier snapshot: the view ``changes``.

The rows of both snapshots are compared as text, in the hours in which something may differ. Applied in their order, the
changes make the rows of the earlier snapshot those of the later one.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import duckdb

from hourline_core.errors import UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.time_travel import find_forgotten
from hourline_core.ledger.token import AnswerToken
from hourline_core.sql.literals import identifier, literal
from serving_layer.change_causes import RECOMPUTED, keep_causes
from serving_layer.changed_hours import keep_changed_hours
from serving_layer.connection import Connection
from serving_layer.query_scope import HourState, refuse_forgotten

CHANGES = "changes"
"""The name of the view."""
REPLACE, DELETE, UPDATE, INSERT = KINDS = ("replace", "delete", "update", "insert")
"""The kinds of changes, in the order in which they apply."""

_COLUMNS = """metric VARCHAR, window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, dimensions MAP(VARCHAR, VARCHAR),
    change VARCHAR, measure VARCHAR, before VARCHAR, after VARCHAR, causes VARCHAR[]"""
_EACH_CAUSE = "(SELECT list_sort(list(DISTINCT cause)) FROM _causes)"
_NO_WINDOW = "SELECT NULL::TIMESTAMPTZ AS window_start, NULL::TIMESTAMPTZ AS window_end"


@dataclass(frozen=True)
class _Compared:
    """A metric at both snapshots."""

    now: MetricTables
    then: MetricTables | None
    """None: it had no tables yet."""
    base: str
    """The metric that has its hours."""
    is_anew: bool
    """Whether the events of its source were made anew in between. Then all earlier results are out of date."""

    @property
    def is_comparable(self) -> bool:
        """Whether the rows of before are kept, and those of both snapshots have the same dimensions and measures."""
        if self.then is None:
            return not self.is_anew
        then, now = self.then.metric, self.now.metric
        return list(then.dimensions) == list(now.dimensions) and then.measures.keys() == now.measures.keys()


def make_changes(
    database: duckdb.DuckDBPyConnection, before: Connection, after: Connection, metrics: Collection[str]
) -> None:
    """Make the temporary table ``changes`` in ``database``, a cursor of ``after``: how the rows of ``metrics`` differ
    from those at ``before``, in the order in which the changes apply.

    Its columns are metric, window_start and window_end (TIMESTAMPTZ in UTC, the end is exclusive), dimensions (MAP of
    VARCHAR), change, measure, before, after (VARCHAR), causes (VARCHAR[]). There is a row for each measure of a result
    that is new (``insert``) or gone (``delete``), and for each measure that has another value (``update``).

    A ``replace`` row has no measure. All earlier results of its window are out of date, or all of the metric if the row
    has no window. The results of ``after`` follow as ``insert``. It stands where the earlier rows are no longer kept,
    where the declared dimensions or measures differ, and where all events were made anew.

    Raises UsageError if ``after`` is older than ``before``, or no longer has rows that are needed. Raises TableError.
    """
    _refuse_reversed(before, after)
    database.execute(f"CREATE OR REPLACE TEMP TABLE {CHANGES} ({_COLUMNS})")
    for compared in _metrics(before, after, metrics):
        keep_changed_hours(database, before, after, [compared.base])
        _keep_forgotten_hours(database, before, after, compared.base)
        if compared.is_comparable and not database.execute("FROM _changed LIMIT 1").fetchall():
            continue
        _keep_changed_rows(database, before, after, compared)
        keep_causes(database, before, after, compared.now, compared.base)
        database.execute(f"INSERT INTO {CHANGES} {_changes_sql(compared.now)}")


def _refuse_reversed(before: Connection, after: Connection) -> None:
    then, now = AnswerToken.of(before.snapshot), AnswerToken.of(after.snapshot)
    is_earlier = (now.publication or 0) < (then.publication or 0) or any(
        now.sequences.get(source, 0) < sequence for source, sequence in then.sequences.items()
    )
    if is_earlier:
        raise UsageError(
            f"got changes since {then} up to {now}, which is earlier; exchange them, or leave out the second one"
        )


def _metrics(before: Connection, after: Connection, metrics: Collection[str]) -> Iterator[_Compared]:
    then = {tables.metric.name: tables for tables in before.served}
    for tables in sorted(after.served, key=lambda one: one.metric.name):
        if (name := tables.metric.name) in metrics:
            is_anew = tables.source.name in before.snapshot.made_anew
            yield _Compared(tables, then.get(name), after.project.base_of(name), is_anew)


def _keep_forgotten_hours(
    database: duckdb.DuckDBPyConnection, before: Connection, after: Connection, base: str
) -> None:
    """Make the table ``_forgotten`` (hour): those of ``_changed`` whose earlier rows are no longer kept. Raises
    UsageError if later ones are not.
    """
    is_forgotten = base in find_forgotten(before.snapshot)
    database.execute(
        "CREATE OR REPLACE TEMP TABLE _forgotten AS "
        f"FROM _changed SEMI JOIN (FROM _hours_then WHERE {is_forgotten} AND state = 'missing') USING (hour)"
    )
    if after.is_past and base in find_forgotten(after.snapshot):
        rows = database.execute("SELECT hour, state FROM _hours_now SEMI JOIN _changed USING (hour)").fetchall()
        refuse_forgotten([HourState(base, *row) for row in rows], {base})


def _keep_changed_rows(
    database: duckdb.DuckDBPyConnection, before: Connection, after: Connection, compared: _Compared
) -> None:
    """Make the tables ``_replaced`` (window_start, window_end): the windows that are given anew, and ``_then`` and
    ``_now`` (see ``_rows_sql``): the rows that may differ.
    """
    now, then = compared.now, compared.then
    ((forgotten,),) = database.execute("SELECT count(*) FROM _forgotten").fetchall()
    is_whole = not compared.is_comparable or bool(now.metric.session and forgotten)
    replaced = _NO_WINDOW if is_whole else _windows_sql(now, "_forgotten")
    after.attached(now.metric.name, f"hourline.windows_{now.name}")
    database.execute(f"CREATE OR REPLACE TEMP TABLE _replaced AS {replaced}")
    database.execute(f"CREATE OR REPLACE TEMP TABLE _now AS {_rows_sql(now, is_whole=is_whole)}")
    database.execute("CREATE OR REPLACE TEMP TABLE _then AS FROM _now WHERE false")
    if then and not is_whole:
        own = before.attached(then.metric.name)
        own.register("_changed", database.execute("FROM _changed").to_arrow_table())
        database.register("_rows_read", own.execute(_rows_sql(then, now.metric.measures)).to_arrow_table())
        database.execute("INSERT INTO _then FROM _rows_read ANTI JOIN _replaced USING (window_start, window_end)")


def _windows_sql(tables: MetricTables, hours: str) -> str:
    """A query: window_start, window_end of each window that contains one of ``hours``."""
    if tables.metric.window.is_hour:
        return f"SELECT hour AS window_start, hour + INTERVAL 1 HOUR AS window_end FROM {hours}"
    return f"SELECT window_start, window_end FROM hourline.windows_{tables.name} {_sharing(hours)}"


def _rows_sql(tables: MetricTables, measures: Collection[str] = (), *, is_whole: bool = False) -> str:
    """A query: window_start, window_end, key (the dimensions as JSON), dimensions (a map), and the values of
    ``measures`` (without any: all) as a list of texts. The rows are those of the hours that have changed, or all.
    """
    metric = tables.metric
    window, rows = "window_start, window_end", f"FROM {identifier(metric.name)}"
    if metric.window.is_hour:
        window = "hour AS window_start, hour + INTERVAL 1 HOUR AS window_end"
        among = "WHERE hour BETWEEN (SELECT min(hour) FROM _changed) AND (SELECT max(hour) FROM _changed)"
        rows += "" if is_whole else f" SEMI JOIN _changed USING (hour) {among}"
    elif not (is_whole or metric.session):  # One event may join, split or move any sessions near it.
        rows += f" {_sharing('_changed')}"
    names = _texts(map(literal, metric.dimensions))
    groups = _texts(map(identifier, metric.dimensions))
    values = _texts(map(identifier, measures or metric.measures))
    return f"""
        SELECT {window}, to_json({groups})::VARCHAR AS key, map({names}, {groups}) AS dimensions, {values} AS measured
        {rows}"""


def _sharing(hours: str) -> str:
    return f"WHERE EXISTS (FROM {hours} h WHERE h.hour < window_end AND h.hour + INTERVAL 1 HOUR > window_start)"


def _texts(values: Iterable[str]) -> str:
    """A list of the values as text, by which each can be had again: ``CAST(text AS type)``."""
    return f"[{', '.join(f'CAST({value} AS VARCHAR)' for value in values)}]::VARCHAR[]"


def _changes_sql(tables: MetricTables) -> str:
    """A query for the rows of the view: how ``_now`` differs from ``_then``, in the order in which it applies."""
    metric, measures = tables.metric, _texts(map(literal, tables.metric.measures))
    kind = f"CASE WHEN t.key IS NULL THEN '{INSERT}' WHEN n.key IS NULL THEN '{DELETE}' ELSE '{UPDATE}' END"
    same = "c.hour < r.window_end AND c.hour + INTERVAL 1 HOUR > r.window_start"
    if metric.window.is_hour:  # The same, in a form that DuckDB joins by hashes.
        same = "c.hour = r.window_start"
    return f"""
        WITH compared AS (
            SELECT window_start, window_end, key, coalesce(n.dimensions, t.dimensions) AS dimensions, {kind} AS change,
                   t.measured AS before, n.measured AS after
            FROM _now n FULL JOIN _then t USING (window_start, window_end, key)
        ), told AS (
            SELECT * REPLACE (unnest(before) AS before, unnest(after) AS after), unnest({measures}) AS measure,
                   unnest(range(len({measures}))) AS place
            FROM compared WHERE before IS DISTINCT FROM after
        ), rows AS (
            SELECT * FROM told WHERE change <> '{UPDATE}' OR before IS DISTINCT FROM after
            UNION ALL BY NAME SELECT window_start, window_end, '{REPLACE}' AS change FROM _replaced
        ), causes AS (
            SELECT r.window_start, r.window_end, r.measure, list_sort(list(DISTINCT c.cause)) AS causes
            FROM (SELECT DISTINCT window_start, window_end, measure FROM rows) r
            JOIN _causes c ON {same} AND (c.measure IS NULL OR c.measure = r.measure) GROUP BY ALL
        )
        SELECT {literal(metric.name)}, r.window_start, r.window_end, r.dimensions, r.change, r.measure, r.before,
               r.after, coalesce(c.causes, if(r.window_start IS NULL, {_EACH_CAUSE}, NULL), ['{RECOMPUTED}'])
        FROM rows r LEFT JOIN causes c ON c.window_start = r.window_start AND c.window_end = r.window_end
             AND c.measure IS NOT DISTINCT FROM r.measure
        ORDER BY r.window_start NULLS FIRST, r.window_end, list_position([{", ".join(map(literal, KINDS))}], r.change),
                 r.key, r.place"""
