"""bare_tables with a metric that has dimensions and measures of every kind, an oracle over plain lists, and a server on
them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from datasketches import frequent_strings_sketch, update_theta_sketch

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Measure, Metric, Project
from serving_layer.http.server import Server
from tests.support import bare_tables
from tests.support.bare_tables import SOURCE, BareTables, hour

ODD = 2**53 + 1
"""An integer that no double is."""

VISITS = Metric(
    name="visits",
    source="clicks",
    description="Visits of pages",
    dimensions={"page": "page", "size": "size"},
    measures={
        "views": Measure(kind="count"),
        "spent": Measure(kind="sum", argument="spent"),
        "longest": Measure(kind="max", argument="took"),
        "mean_size": Measure(kind="mean", argument="size"),
        "visits_of_each": Measure(kind="ratio", argument="views, visitors"),
        "visitors": Measure(kind="distinct", argument="visitor"),
        "often": Measure(kind="top", argument="visitor", limit=2),
        "frequency": Measure(kind="rate", argument="views"),
    },
)
_SCHEMA = pa.schema(
    {
        "hour": TIMESTAMP,
        "page": pa.string(),
        "size": pa.int64(),
        "views": pa.int64(),
        "spent": pa.decimal128(29, 0),
        "longest": pa.float64(),
        "mean_size__n": pa.int64(),
        "mean_size__total": pa.decimal128(29, 0),
        "visitors": pa.binary(),
        "often": pa.struct(
            {
                "sketch": pa.binary(),
                "maxItemsTracked": pa.int32(),
                "itemDataType": pa.string(),
                "itemDataTypeDDL": pa.string(),
            }
        ),
        "often__n": pa.int64(),
    }
)


class Visit(int):
    """The number of its hour, as bare_tables wants it, and what else is known of it."""

    page: str | None
    size: int
    spent: int
    took: float
    visitor: str

    @classmethod
    def of(
        cls, number: int, page: str | None = "/", size: int = 1, spent: int = 1, took: float = 1.0, visitor: str = "v"
    ) -> "Visit":
        visit = cls(number)
        visit.page, visit.size, visit.spent, visit.took, visit.visitor = page, size, spent, took, visitor
        return visit


def some_visits(count: int) -> list[Visit]:
    """In five hours, of three pages and null, by a few visitors who come again in other hours."""
    pages = ["/home", "/shop/boots", 'ümlaut, "quoted"', None]
    return [Visit.of(n % 5, pages[n % 4], n % 3, ODD if n % 7 == 0 else n, n / 3, f"v{n % 11}") for n in range(count)]


def visit_tables(folder: Path, visits: Sequence[Visit], monkeypatch: pytest.MonkeyPatch) -> BareTables:
    """Tables with the metrics `visits` and `totals`."""
    metrics = {"totals": bare_tables.METRICS["totals"], "visits": VISITS}
    plain = bare_tables.tiles
    monkeypatch.setattr(bare_tables, "METRICS", metrics)
    monkeypatch.setattr(bare_tables, "TILINGS", [bare_tables.TILINGS[0], AggregationPlan(SOURCE, VISITS, _SCHEMA)])
    monkeypatch.setattr(
        bare_tables, "tiles", lambda name, events: _tiles(events) if name == "visits" else plain(name, events)
    )
    return BareTables(folder, list(visits))


def grouped(visits: Collection[Visit], *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The oracle: by values of ``keys`` (hour, page, size), the measures by plain Python. Every hour has visits."""
    hours = 1 if "hour" in keys else len(set(visits))
    return {key: _measures(group, hours) for key, group in _groups(visits, *keys).items()}


def serve_settings(project: Project, **serve: Any) -> Project:
    """The project with these settings of the server."""
    settings = project.settings.model_copy(update={"serve": project.settings.serve.model_copy(update=serve)})
    return replace(project, settings=settings)


@contextmanager
def serving(project: Project, environ: dict[str, str] | None = None, **serve: Any) -> Iterator[httpx.Client]:
    """A client of a server of its own, on a real socket."""
    with (
        Server(serve_settings(project, **serve), environ=environ or {}) as server,
        httpx.Client(base_url=server.url, timeout=600) as client,
    ):
        yield client


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def after(number: int) -> str:
    """The hour after this one, as text."""
    return iso(hour(number) + timedelta(hours=1))


def _groups(visits: Collection[Visit], *keys: str) -> dict[tuple[Any, ...], list[Visit]]:
    groups: dict[tuple[Any, ...], list[Visit]] = {}
    for visit in visits:
        groups.setdefault(tuple(hour(visit) if key == "hour" else getattr(visit, key) for key in keys), []).append(
            visit
        )
    return groups


def _measures(group: list[Visit], hours: int) -> dict[str, Any]:
    often = sorted(Counter(visit.visitor for visit in group).items(), key=lambda one: (-one[1], one[0]))
    return {
        "views": len(group),
        "spent": sum(visit.spent for visit in group),
        "longest": max(visit.took for visit in group),
        "mean_size": sum(visit.size for visit in group) / len(group),
        "visits_of_each": len(group) / len({visit.visitor for visit in group}),
        "visitors": len({visit.visitor for visit in group}),
        "often": [{"value": value, "count": count, "error": 0} for value, count in often[:2]],
        "frequency": len(group) / (hours * 3600),
    }


def _tiles(visits: Sequence[Visit]) -> pa.Table:
    rows = []
    for (moment, page, size), group in _groups(visits, "hour", "page", "size").items():
        values = _measures(group, 1)
        sketch, frequencies = update_theta_sketch(12), frequent_strings_sketch(11)
        for visit in group:
            sketch.update(f".{visit.visitor}")
            frequencies.update(visit.visitor)
        rows.append(
            {
                "hour": moment,
                "page": page,
                "size": size,
                "views": values["views"],
                "spent": Decimal(values["spent"]),
                "longest": values["longest"],
                "mean_size__n": len(group),
                "mean_size__total": Decimal(sum(visit.size for visit in group)),
                "visitors": sketch.compact().serialize(),
                "often": {
                    "sketch": frequencies.serialize(),
                    "maxItemsTracked": 1536,
                    "itemDataTypeDDL": "item string not null",
                },
                "often__n": len(group),
            }
        )
    return pa.Table.from_pylist(rows, _SCHEMA)
