"""An answer through the tables is that over a copy of their rows, also where the statistics of files that an older
version wrote leave values out.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import WriterProperties
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Measure, Metric
from hourline_core.storage import commits, compaction
from serving_layer.script import script
from tests.support import bare_tables
from tests.support.bare_tables import SOURCE, BareTables, hour
from tests.support.edge_values import ROW, SCHEMA, Question, questions
from tests.support.examples import examples
from tests.surface.test_script import plain_duckdb

EXTREMES = ("real", "single", "number", "amount", "text", "day", "moment")
METRIC = Metric(
    name="totals",
    source="clicks",
    dimensions={"share": "n / 2", "many": "array(n / 2)"},
    measures={
        **{name: Measure(kind="max", argument=name) for name in EXTREMES},
        "newest": Measure(kind="last", argument="real"),
    },
)
LAST = pa.struct({"at": TIMESTAMP, "offset": pa.int64(), "value": pa.float64()})
TILES = pa.schema(
    [
        pa.field("hour", TIMESTAMP),
        pa.field("share", pa.float64()),
        SCHEMA.field("many"),
        *(SCHEMA.field(name) for name in EXTREMES),
        ("newest", LAST),
    ]
)
OF_RESULTS = {**{name: name for name in EXTREMES}, "share": "real", "newest": "real", "many[1]": "real"}
OF_EVENTS = {"pair.real": "real"}
OF_FINAL = [Question(f"SELECT {of}(real), {of}(single), {of}(share) FROM {{table}}", ()) for of in ("min", "max")]


class EdgeTables(BareTables):
    """Tables whose n-th hour has the n-th row."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]]) -> None:
        super().__init__(folder, [*range(len(rows)), 1])
        self.rows = rows

    def values_of(self, field: str, hours: list[int]) -> pa.Array:
        """The events of an hour have the pair of its row."""
        if field != "pair":
            return super().values_of(field, hours)
        return pa.array([self.rows[number][field] for number in hours], SCHEMA.field(field).type)

    def tiles(self, metric: str, hours: list[int]) -> pa.Table:
        """See ``bare_tables.tiles``."""
        found = [
            {
                "hour": hour(number),
                "share": self.rows[number]["real"],
                "many": self.rows[number]["many"],
                **{name: self.rows[number][name] for name in EXTREMES},
                "newest": {"at": hour(number), "offset": number, "value": self.rows[number]["real"]},
            }
            for number in sorted(set(hours))
        ]
        return pa.Table.from_pylist(found, TILES)


def test_an_answer_through_the_tables_of_an_older_version_is_that_over_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare_tables, "METRICS", {"totals": METRIC})
    monkeypatch.setattr(bare_tables, "TILINGS", [AggregationPlan(SOURCE, METRIC, TILES)])
    for module in (commits, compaction):
        monkeypatch.setattr(module, "writer_properties", lambda *_: WriterProperties())

    @settings(max_examples=examples(2), deadline=None)
    @given(st.lists(ROW, min_size=5, max_size=5), questions(OF_RESULTS), questions(OF_EVENTS))
    def check(rows: list[dict[str, Any]], of_results: list[Question], of_events: list[Question]) -> None:
        with TemporaryDirectory() as folder, monkeypatch.context() as patched:
            tables = EdgeTables(Path(folder), rows)
            patched.setattr(bare_tables, "tiles", tables.tiles)
            tables.start("pair", of=SCHEMA.field("pair").type)
            tables.micro_batch(4)
            tables.publish(0, 1, metrics=["totals"])
            tables.micro_batch(2)
            tables.publish(2, 3, metrics=["totals"], blocked=[3])
            with serving_layer.connect(tables.project) as connection:
                plain = plain_duckdb(script(connection))
                for duck in (connection.database, plain):
                    asked = {
                        "totals": of_results,
                        "totals_final": of_results,
                        "totals_staged": of_results,
                        "events_clicks": of_events,
                        f"hourline.final_{connection.served[0].name}": OF_FINAL,
                    }
                    for view, about in asked.items():
                        duck.execute(f"CREATE OR REPLACE TEMP TABLE copied AS FROM {view}")
                        for question in about:
                            assert question.ask(duck, view) == question.ask(duck, "copied"), (view, question)

    check()


@pytest.mark.parametrize("version", ["an older one", "this one"])
def test_a_group_whose_measure_is_not_a_number_is_found(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bare_tables, "METRICS", {"totals": METRIC})
    monkeypatch.setattr(bare_tables, "TILINGS", [AggregationPlan(SOURCE, METRIC, TILES)])
    if version == "an older one":
        for module in (commits, compaction):
            monkeypatch.setattr(module, "writer_properties", lambda *_: WriterProperties())
    nothing: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    values = (1.0, 9.0, float("nan"))
    tables = EdgeTables(
        tmp_path, [{**nothing, "real": value, "many": [value], "pair": {"real": value}} for value in values]
    )
    monkeypatch.setattr(bare_tables, "tiles", tables.tiles)
    tables.start("pair", of=SCHEMA.field("pair").type)
    tables.micro_batch(3)
    tables.publish(0, 1, 2, metrics=["totals"])
    asked = {"{0} > 9": 1, "{0} = 'nan'": 1, "{0} <= 9": 2, "{0} < 'inf'": 2, "isnan({0})": 1}
    with serving_layer.connect(tables.project) as connection:
        for duck in (connection, plain_duckdb(script(connection))):
            for condition, count in asked.items():
                for view, columns in {
                    "totals": ("real", "share", "newest", "many[1]"),
                    "events_clicks": ("pair.real",),
                }.items():
                    for column in columns:
                        query = f"SELECT count(*) FROM {view} WHERE {condition.format(column)}"
                        assert duck.sql(query).fetchone() == (count,), query
