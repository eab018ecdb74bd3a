"""The default bounds of history over a year of real flights: how often an ordinary hour warns, and whether an hour that
was halved, doubled or emptied is found. DuckDB counts the flights.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from batch_layer.audit.history_bounds import compute_bounds
from examples.nyc_flights.flights import unpack
from hourline_core.model import History

_ORDINARY = (4, 6, 8, 10)
"""The months without a holiday and without a change of the clocks, after three weeks of flights."""
_HOURS = """
    SELECT time_hour AS hour, count(*) AS flights, count(DISTINCT tailnum) AS aircraft, sum(distance)::BIGINT AS miles,
        avg(dep_delay) AS delay
    FROM read_csv(?, nullstr = 'NA') GROUP BY ALL"""
_ADD_UP = {"flights": True, "aircraft": True, "miles": True, "delay": False}


class Compared(NamedTuple):
    """An hour that history can tell of."""

    value: float
    flights: int
    lower: float
    upper: float

    def warns(self, change: Callable[[float], float] = lambda value: value) -> bool:
        return not self.lower <= change(self.value) <= self.upper


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Mapping[datetime, Mapping[str, float]]:
    file: Path = unpack(tmp_path_factory.mktemp("flights"))
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        rows = database.execute(_HOURS, [str(file)]).to_arrow_table().to_pylist()
    return {row.pop("hour"): row for row in rows}


def compared(hours: Mapping[datetime, Mapping[str, float]], measure: str, months: tuple[int, ...]) -> list[Compared]:
    """The hours of the months, each by the bounds that the weeks before give it."""
    flights = {hour: int(values["flights"]) for hour, values in hours.items()}
    found = []
    for hour, values in hours.items():
        if hour.month in months and values[measure] is not None:
            pair = compute_bounds(hours, flights, hour, measure, History(), _ADD_UP[measure])
            if pair is not None:
                found.append(Compared(float(values[measure]), flights[hour], *pair))
    return found


@pytest.mark.parametrize("measure", ["flights", "aircraft", "miles"])
def test_at_most_one_ordinary_hour_in_500_warns_and_a_wrong_one_is_found(
    hours: Mapping[datetime, Mapping[str, float]], measure: str
) -> None:
    told = compared(hours, measure, _ORDINARY)
    assert len(told) > 1_900
    assert 500 * sum(hour.warns() for hour in told) <= len(told)
    assert share(told, lambda value: 0) > 0.99
    # Of fewer flights, chance might make a half of them, or a double.
    full = [hour for hour in told if hour.flights >= 36]
    assert len(full) > 0.9 * len(told)
    assert share(full, lambda value: value / 2) > 0.9
    assert share(full, lambda value: value * 2) > 0.9


@pytest.mark.parametrize(("measure", "months"), [("delay", _ORDINARY), ("flights", (5, 7, 9, 12))])
def test_storms_and_holidays_warn_in_a_few_hours(
    hours: Mapping[datetime, Mapping[str, float]], measure: str, months: tuple[int, ...]
) -> None:
    told = compared(hours, measure, months)
    assert len(told) > 1_900
    assert 250 * sum(hour.warns() for hour in told) <= len(told)


def share(hours: list[Compared], change: Callable[[float], float]) -> float:
    """The share of the hours that warn after a change."""
    return sum(hour.warns(change) for hour in hours) / len(hours)
