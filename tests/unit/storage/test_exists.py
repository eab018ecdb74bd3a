"""Whether there is a table is read off the names in its log, as delta-rs does."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from hourline_core.storage.opening import exists

FIRST = f"{0:020}"


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["_last_checkpoint"],
        [f"{FIRST}.json.tmp", "_commit_1.json.tmp"],
        ["1.json", f"x{FIRST}.json"],
        [f"{FIRST}.json"],
        ["_last_checkpoint", f"{10:020}.checkpoint.parquet"],
        [f"{10:020}.checkpoint.{1:010}.{2:010}.parquet"],
    ],
)
def test_a_table_is_there_if_delta_rs_says_so(tmp_path: Path, names: list[str]) -> None:
    table = tmp_path / "table"
    assert not exists(str(table), {})
    (table / "_delta_log").mkdir(parents=True)
    for name in names:
        (table / "_delta_log" / name).touch()
    assert exists(str(table), {}) == DeltaTable.is_deltatable(str(table))
