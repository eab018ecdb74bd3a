"""Two versions of a lookup that cannot be compared make all hours with events stale, and somebody is told so."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from batch_layer.changed_lookups import _Archive
from hourline_core.ledger.layout import Layout
from hourline_core.lookups.versions import commit_version, open_versions
from hourline_core.model import Lookup, Metric, Project, Settings, Source
from hourline_core.storage.opening import open_table
from speed_layer.commit.source_tables import open_source_tables
from tests.support.lookup_rows import take

BASE = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOURS = [BASE + timedelta(hours=place) for place in range(2)]
PRICE = Lookup.model_validate(
    {"name": "price", "table": "prices.csv", "key": "kind", "columns": {"kind": "string", "price": "long"}}
)
SALES = Source.model_validate(
    {
        "name": "sales",
        "topic": "sales",
        "fields": {"kind": "string", "at": "timestamp"},
        "event_time": "at",
        "lookups": {"price": "kind"},
    }
).bind_lookups({"price": PRICE})
EARNED = Metric.model_validate(
    {"name": "earned", "source": "sales", "dimensions": {}, "measures": {"all": "sum(price.price)"}}
)


@pytest.mark.parametrize(
    ("hindrance", "hours", "words"),
    [("nothing", HOURS[1:], []), ("no space", HOURS, ["cannot be sorted"]), ("not kept", HOURS, [])],
)
def test_versions_that_cannot_be_compared_are_told(
    hindrance: str, hours: list[datetime], words: list[str], tmp_path: Path
) -> None:
    project = Project(tmp_path, Settings(), {"sales": SALES}, {"earned": EARNED}, lookups={"price": PRICE})
    layout, told = Layout.of(project), list[str]()
    fields = {"kind": pa.string(), "at": pa.timestamp("us", tz="UTC")}
    open_source_tables(layout, SALES, pa.schema(fields), [])
    for value in (1, 2):  # of b alone
        rows = take(PRICE, pa.table({"kind": ["a", "b"], "price": [1, value]})).rows
        commit_version(layout, PRICE, open_versions(layout, PRICE), rows)
    if hindrance == "no space":
        (project.workspace / "run").mkdir()
        (project.workspace / "run" / "sorted_lookups").touch()
    if hindrance == "not kept":
        for file in open_table(layout.lookup(PRICE), {}, 1).file_uris():
            Path(file).unlink()
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        events = [
            {"hour": hour, "sequence": 1, "event_time": hour, "kind": kind}
            for hour, kind in zip(HOURS, "ab", strict=True)
        ]
        database.register("events", pa.Table.from_pylist(events))
        database.execute("CREATE SCHEMA hourline; CREATE TABLE hourline.events_sales AS FROM events")
        archive = _Archive(database, project, SALES, told.append)
        assert archive.find_touched(EARNED, PRICE, (1, 2), dict.fromkeys(HOURS, 1)) == set(hours)
    assert len(told) == len(words)
    for sentence, of in zip(told, words, strict=True):
        assert "versions 1 and 2 of lookup 'price' cannot be compared" in sentence
        assert of in sentence
