"""`explain` of events whose lookup is deleted while it is read."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hourline_core.ledger.layout import Layout
from hourline_core.lookups import join
from hourline_core.lookups.versions import commit_version, open_versions
from hourline_core.storage.opening import open_table
from serving_layer.reports import looked_up
from tests.support.lookup_rows import take
from tests.unit.batch_layer.test_compared_lookups import PRICE, SALES


@pytest.mark.parametrize("deleted", [False, True])
def test_a_version_that_is_deleted_meanwhile_is_not_kept(
    deleted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "_MOST_ROWS", 0)
    layout = Layout(str(tmp_path))
    rows = take(PRICE, pa.table({"kind": ["a", "b"], "price": [1, 2]})).rows
    commit_version(layout, PRICE, open_versions(layout, PRICE), rows)

    def open_and_delete(*arguments: Any) -> Any:
        opened = join.open_lookup(*arguments)
        if deleted:
            for file in open_table(layout.lookup(PRICE), {}).file_uris():
                Path(file).unlink()
        return opened

    monkeypatch.setattr(looked_up, "open_lookup", open_and_delete)
    asked = pa.table({"k0": ["b", "c", None], "at": pa.nulls(3), "version": [1, 1, 1], "events": [1, 1, 1]})
    with duckdb.connect() as connection:
        met = looked_up._meet(connection, PRICE, layout, SALES, 1, asked)
    why = ["version not kept", "version not kept"] if deleted else [None, "no row"]
    missed = dict(zip(met["k0"].to_pylist(), met["missed"].to_pylist(), strict=True))
    assert missed == {"b": why[0], "c": why[1], None: "null key"}
