"""Explains DuckDB's errors in one sentence, with near names of the project."""

import re
from collections.abc import Collection, Iterable, Iterator

import duckdb

from hourline_core.errors import did_you_mean
from hourline_core.ledger.pending_declarations import TAKES_UP, PendingDeclaration
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Metric, Project
from hourline_core.sql.query_tree import find_names, fold_case
from serving_layer.served_metrics import served_metrics

_MAKES_TABLES = "`hourline speed` (or `hourline up`) makes them when it starts"
_RECORDS = ("events", "rejected", "quarantine")
"""Each is the beginning of a view's name, which ends with that of its source."""
_COLUMN = re.compile(
    r'(?:Referenced column |does not have a column named )"([^"]+)"(?:.*?Candidate bindings: ([^\n]*))?', re.DOTALL
)
_OF_STATES = ("distinct_count", "distinct_merge", "quantile_value", "quantile_merge")
"""The functions that merge the states of measures, but for those of `top`."""
_ALLOWED = "allowed is one SELECT in DuckDB's SQL, such as: FROM hours"
_NO_FINDINGS = "findings are of now: ask without --as-of; if a table is damaged, restore it first"
_NO_CHANGES = "the view 'changes' needs an earlier token or time to compare with: use `hourline changes --since TOKEN`"
_VIEWS = ("hours", "long_silences", "windows", "late_events", "drift", "quality", "publications", "findings")


def explain_error(
    error: duckdb.Error,
    database: duckdb.DuckDBPyConnection,
    query: str,
    project: Project,
    snapshot: Snapshot,
    pending: Iterable[PendingDeclaration],
) -> str:
    """The explanation for ``query``, one SELECT that ``database`` has refused. ``pending`` are the declarations that it
    does not get yet.
    """
    text = str(error)
    if table := re.search(r"Table with name (\S+) does not exist", text):
        there = {tables.metric.name for tables in served_metrics(project, snapshot)}
        absent = {"findings": _NO_FINDINGS, "changes": _NO_CHANGES}.get(fold_case(table[1]))
        if why := absent or _explain_unstarted(table[1], project, there, snapshot.progress):
            return why
        records = [f"{kind}_{source}" for source in project.sources for kind in ("events", "rejected")]
        records += [name.replace("/", "_") for name in snapshot.other_tables if name.startswith("quarantine/")]
        return f"there is no view '{table[1]}'{did_you_mean(table[1], [*there, *_VIEWS, *records])}"
    if column := _COLUMN.search(text):
        named = find_names(database, query).tables
        if why := _explain_pending(column[1], named, project, pending):
            return f"there is no column '{column[1]}' yet: {why}"
        # DuckDB offers only the nearest few names.
        candidates = _columns_of(database, named) or set(re.findall(r"[\"']([^\"']+)[\"']", column[2] or ""))
        return f"there is no column '{column[1]}'{did_you_mean(column[1], candidates)}"
    if why := _explain_function(text, query, database, project):
        return f"the query cannot be answered: {why}"
    kind, _, rest = text.partition(": ")
    hint = ""
    if kind == "Parser Error":
        words = _names_in_sql(database, query, project)
        hint = f"; in double quotes, a word of SQL is a name: {words}" if words else f"; {_ALLOWED}"
    return f"the query cannot be answered: {kind}: {rest.strip().partition(chr(10))[0]}{hint}"


def _columns_of(database: duckdb.DuckDBPyConnection, tables: Collection[str]) -> set[str]:
    """The columns of those of ``tables`` that are views."""
    rows = database.execute(
        "SELECT column_name FROM duckdb_columns() "
        "WHERE schema_name = 'main' AND list_contains($tables, lower(table_name))",
        {"tables": list(tables)},
    ).fetchall()
    return {name for (name,) in rows}


def _names_in_sql(database: duckdb.DuckDBPyConnection, query: str, project: Project) -> str:
    """The names of the project in ``query`` that are words of SQL, in quotes. Empty: there are none."""
    rows = database.execute(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    ).fetchall()
    reserved = {word for (word,) in rows} & {fold_case(word) for word in re.findall(r"\w+", query)}
    names = {
        name
        for metric in project.all_metrics.values()
        for name in (metric.name, *metric.dimensions, *metric.measures, *project.source_of(metric).event_fields)
    }
    return ", ".join(f'"{name}"' for name in sorted(names) if fold_case(name) in reserved)


def _explain_function(text: str, query: str, database: duckdb.DuckDBPyConnection, project: Project) -> str | None:
    """What is wrong with the use of a function of Hourline's. None: the error is about something else."""
    if of_function := re.search(r"executing the UDF: \w+: ([^\n]*)", text):
        return of_function[1]
    if not re.search(r"No function matches [^\n]*'(theta|histogram)_\w+\(", text):  # within a macro
        return None
    tables = find_names(database, query).tables
    used = [name for name in _OF_STATES if name in query.casefold()] or _OF_STATES
    views = [f"'{metric.name}_states'" for metric in project.all_metrics.values() if fold_case(metric.name) in tables]
    there = " and ".join(views) or "a view '<metric>_states'"
    return f"{' and '.join(used)} merges states, which {there} has; other views have finished values"


def without_tables(kind: str, name: str) -> str:
    """The explanation for a declared metric or source (``kind``) that no speed layer has started with yet."""
    return f"{kind} '{name}' has no tables yet; {_MAKES_TABLES}"


def _explain_unstarted(view: str, project: Project, metrics: Collection[str], sources: Collection[str]) -> str | None:
    """The explanation for the view of a declared metric or source that no speed layer has started with yet. None: it
    is no such view. ``metrics`` and ``sources`` are those that one has started with.
    """
    name = fold_case(view)
    for metric in project.all_metrics.values():
        if metric.name not in metrics and name in map(fold_case, metric.views):
            return without_tables("metric", metric.name)
    for source in project.sources:
        if source not in sources and name in {fold_case(f"{kind}_{source}") for kind in _RECORDS}:
            return without_tables("source", source)
    return None


def explain_absence(
    kind: str, name: str, there: Collection[str], metric: Metric, pending: Iterable[PendingDeclaration]
) -> str:
    """The explanation for a dimension or measure (``kind``) that is not among those of the served declaration, which
    are ``there``. ``metric`` is as it is declared now.
    """
    none = f"metric '{metric.name}' has no {kind} '{name}'"
    if name in (*metric.dimensions, *metric.measures):
        for one in pending:
            if metric.name in (one.metric, *one.rollups):
                return f"{none} yet: {one.in_words()}"
    return f"{none}{did_you_mean(name, there)}" if there else f"{none}, nor any other"


def find_concerned(
    pending: Iterable[PendingDeclaration], tables: Collection[str], project: Project
) -> Iterator[tuple[PendingDeclaration, list[Metric]]]:
    """Those of ``pending`` that are about one of the views ``tables``, each with the metrics of these views."""
    for one in pending:
        metrics = [project.all_metrics[name] for name in (one.metric, *one.rollups)]
        named = [metric for metric in metrics if not set(map(fold_case, metric.views)).isdisjoint(tables)]
        if named:
            yield one, named


def _explain_pending(
    column: str, tables: Collection[str], project: Project, pending: Iterable[PendingDeclaration]
) -> str | None:
    """Why a declared column of one of ``tables`` is not there yet, in one sentence. None: it is not declared."""
    name = fold_case(column)
    for one, metrics in find_concerned(pending, tables, project):
        for metric in metrics:
            if name in map(fold_case, (*metric.time_columns, *metric.dimensions, *metric.measures)):
                return one.in_words()
    for source in project.sources.values():
        if fold_case(f"events_{source.name}") in tables and name in map(fold_case, source.event_fields):
            return f"it is a new field of '{source.name}', archived once the speed layer starts again {TAKES_UP}"
    return None
