"""Which ids a start of the speed layer knows from the archive."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hourline_core.ledger.layout import EVENT_SCHEMA, TIMESTAMP
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.model.lookup import Lookup, LookupColumn
from hourline_core.model.scratch_columns import HOUR, ID_HASH
from hourline_core.model.source_lookup import SourceLookup
from hourline_core.runtime.spark import spark_session
from speed_layer.intake.deduplication import archived_id_hashes

BASE = datetime(2024, 3, 1, tzinfo=UTC)
COLUMNS = {name: LookupColumn(type="string") for name in ("scan", "place")}


def test_archived_ids_are_those_of_the_hours_asked_for_wherever_they_lie(tmp_path: Path) -> None:
    settings = Settings.model_validate({"spark": {"master": "local[2]"}})
    source = Source(
        name="scans",
        topic="scans",
        fields={"scan": Field(type="string")},
        event_time=EventTime(expression="scan"),
        lookups={"depot": SourceLookup(key=("scan",))},
        derived={"shown": "upper(scan)", "place": "coalesce(depot.place, shown)"},
        id="shown",
    )
    lookups = {"depot": Lookup(name="depot", table="depots.csv", key=("scan",), columns=COLUMNS)}
    project = Project(tmp_path, settings, {"scans": source}, {}, lookups=lookups)
    source = project.sources["scans"]
    address = str(tmp_path / "a b{c,d}*?é" / "scans")  # which Spark would take for a pattern
    for hour, ids in ((0, ["x"]), (1, ["x", "y", None]), (1, ["x"])):
        moments = pa.array([BASE + timedelta(hours=hour)] * len(ids), TIMESTAMP)
        columns = {"hour": moments, "event_time": moments, "scan": pa.array(ids, pa.string())}
        others = {field.name: pa.nulls(len(ids), field.type) for field in EVENT_SCHEMA if field.name not in columns}
        write_deltalake(address, pa.table(others | columns), mode="append")
    spark = spark_session(project, "test")
    try:
        parts = [
            [*archived_id_hashes(spark, source, address, DeltaTable(address), BASE + timedelta(minutes=minutes), most)]
            for minutes, most in ((0, 3), (60, 100), (61, 100))
        ]
    finally:
        spark.stop()
    assert [len(of) for of in parts] == [2, 1, 0]
    every, second, _ = ([row for part in of for row in part.to_pylist()] for of in parts)
    assert [row[HOUR] for row in second] == [BASE + timedelta(hours=1)] * 4
    hashes = [row[ID_HASH] for row in second]
    assert sorted(hashes.count(one) for one in set(hashes) - {None}) == [1, 2], "x twice, y once"
    assert hashes.count(None) == 1
    (first,) = (row[ID_HASH] for row in every if row[HOUR] == BASE)
    assert first is not None and first not in hashes, "the same id in another hour"
