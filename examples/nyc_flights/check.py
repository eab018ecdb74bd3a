"""Compares Hourline's answers with the oracle's, cell by cell."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations, zip_longest

from examples.nyc_flights.oracle import Cells
from hourline_core.model import Project
from serving_layer import Connection, connect

_OF_FLIGHTS = "kind = 'source' AND name = 'flights'"


@dataclass
class Comparison:
    """The number of compared cells, and those that differ. A cell is one measure of one group in one hour."""

    cells: Counter[str] = field(default_factory=Counter)
    """The number of cells by the state of their hour. ``missing`` are those that only the oracle has."""
    differences: list[str] = field(default_factory=list)

    def add(self, other: "Comparison") -> None:
        self.cells += other.cells
        self.differences += other.differences


def compare(connection: Connection, truth: dict[str, Cells]) -> Comparison:
    """Compare all cells of all metrics at the connection's snapshot. Rows on one side only count as different."""
    comparison = Comparison()
    for name, metric in connection.project.metrics.items():
        columns = ["hour", *metric.dimensions, *metric.measures]
        rows = connection.sql(f"SELECT {', '.join(columns)}, state FROM {name}").fetchall()
        width = 1 + len(metric.dimensions)
        got = {row[:width]: row[width:-1] for row in rows}
        states = {row[:width]: row[-1] for row in rows}
        for key in sorted(got.keys() | truth[name].keys(), key=str):
            for measure, ours, theirs in zip_longest(metric.measures, got.get(key, ()), truth[name].get(key, ())):
                comparison.cells[states.get(key, "missing")] += 1
                if not equal(ours, theirs):
                    where = ", ".join(str(part) for part in key)
                    comparison.differences.append(
                        f"{name}.{measure} of {where}: Hourline says {ours}, the CSV says {theirs}"
                    )
    return comparison


def compare_rows(connection: Connection, query: str, truth: list[tuple[object, ...]], what: str) -> Comparison:
    """Compare the result of a query with the oracle's rows. ``what`` tells of its cells."""
    rows = connection.sql(query).fetchall()
    pairs = list(zip_longest(rows, truth))
    differences = [f"{query}: Hourline says {ours}, the CSV says {theirs}" for ours, theirs in pairs if ours != theirs]
    return Comparison(Counter({what: sum(len(theirs or ours) - 1 for ours, theirs in pairs)}), differences)


def compare_quiet_hours(connection: Connection, truth: list[datetime]) -> Comparison:
    """Compare the hours without flights with the oracle's. Each is an hour like any other."""
    rows = connection.sql(f"SELECT hour, state FROM hours WHERE {_OF_FLIGHTS} AND events = 0").fetchall()
    found = dict(rows)
    differences = [
        f"{hour} is an hour without flights: Hourline says {hour in found}, the CSV says {hour in truth}"
        for hour in sorted(found.keys() ^ set(truth))
    ]
    return Comparison(Counter(found.values()), differences)


def compare_audited(connection: Connection, truth: dict[tuple[object, ...], int]) -> Comparison:
    """Compare how many flights have no row in a lookup, as the audit has told, with the oracle's: by final hour and
    lookup.
    """
    final = connection.sql(f"SELECT hour FROM hours WHERE {_OF_FLIGHTS} AND state = 'final'").fetchall()
    rows = connection.sql("""
        SELECT hour, split_part(about, 'events without a row in ', 2), arg_max(observed, audited)::INTEGER
        FROM quality WHERE about LIKE '%events without a row in %' GROUP BY ALL""").fetchall()
    found = {tuple(key): number for *key, number in rows}
    expected = {key: number for key, number in truth.items() if key[:1] in final}
    differences = [
        f"{key}: the audit has told of {found.get(key)} flights without a row, the CSV says {number}"
        for key, number in expected.items()
        if found.get(key) != number
    ]
    return Comparison(Counter({"audited": len(expected)}), differences)


def compare_changes(project: Project, answers: Sequence[tuple[str, dict[str, Cells]]]) -> Comparison:
    """Compare what has changed between each two of ``answers``: tokens with the oracle's cells, in their order. Applied
    to the earlier cells, the changes make the later ones.
    """
    comparison = Comparison()
    for (since, then), (to, now) in combinations(answers, 2):
        cells, expected = _flat(project, then), _flat(project, now)
        with connect(project, since=since, as_of=to) as connection:
            changes = connection.sql("FROM changes").to_arrow_table().to_pylist()
        # The oracle has the metrics of hours. Those over them have their own comparison.
        for one in (one for one in changes if one["metric"] in now):
            cell = (one["metric"], one["window_start"], *dict(one["dimensions"]).values(), one["measure"])
            before, after = (_value(one[name]) for name in ("before", "after"))
            is_new = one["change"] == "insert"
            if is_new == (cell in cells) or not equal(cells.pop(cell, None), before):
                comparison.differences.append(f"{since} to {to}: {cell} was not {before}, as `changes` says")
            if one["change"] != "delete":
                cells[cell] = after
            comparison.cells["changed"] += 1
        comparison.differences += [
            f"{since} to {to}: {cell} is {expected.get(cell)}, and {cells.get(cell)} by `changes`"
            for cell in cells.keys() | expected.keys()
            if cell not in cells or cell not in expected or not equal(cells[cell], expected[cell])
        ]
    return comparison


def _flat(project: Project, answer: dict[str, Cells]) -> dict[tuple[object, ...], object]:
    """By metric, hour, dimensions and measure. The dimensions are texts, as those of changes."""
    return {
        (metric, hour, *(None if one is None else str(one) for one in dimensions), measure): value
        for metric, cells in answer.items()
        for (hour, *dimensions), values in cells.items()
        for measure, value in zip(project.metrics[metric].measures, values, strict=True)
    }


def _value(text: str | None) -> float | None:
    return None if text is None else float(text)


def equal(ours: object, theirs: object) -> bool:
    """Whether two values are equal. Floats may differ by 1e-9, since the order of addition changes last digits."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9)
    return ours == theirs
