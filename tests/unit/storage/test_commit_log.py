"""A damaged commit is told, however much of it is left, also by a reader that has kept the table open."""

from pathlib import Path

import pyarrow as pa
import pytest

from hourline_core.errors import TableError
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.version_retention import PUBLISHED

COLUMNS = pa.schema({"hour": pa.int64()})


@pytest.mark.parametrize("left", [0, 10, 100])
def test_an_older_commit_that_is_cut_off_is_noticed_by_who_has_read_it_whole(tmp_path: Path, left: int) -> None:
    uri = f"{tmp_path}/final/totals/0123456789ab"
    table = open_or_create(uri, {}, "final", COLUMNS, PUBLISHED, "totals")
    for number in range(3):
        commits.append(table, pa.table({"hour": [number]}, COLUMNS), {})
    with OpenTables({}) as opened:
        opened.open(uri)
    older = tmp_path / "final" / "totals" / "0123456789ab" / "_delta_log" / f"{1:020}.json"
    older.write_bytes(older.read_bytes()[:left])
    with pytest.raises(TableError, match=f"{uri} (is damaged|cannot be read)"), OpenTables({}) as opened:
        opened.open(uri)
