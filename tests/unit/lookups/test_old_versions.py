"""A version of a lookup is kept for its time, counted from when another one replaced it, and is deleted after that."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hourline_core.ledger.layout import Layout
from hourline_core.lookups.versions import commit_version, is_kept, open_versions, read_version
from hourline_core.model import Lookup
from hourline_core.storage.opening import open_table
from tests.support.lookup_rows import take


def declare(keep: str) -> Lookup:
    columns = {"k": "long", "v": "long"}
    declared = {"name": "x", "table": "x.parquet", "key": "k", "columns": columns, "keep": keep}
    return Lookup.model_validate(declared)


def commit(layout: Layout, lookup: Lookup, value: int) -> int:
    rows = take(lookup, pa.table({"k": [1], "v": [value]})).rows
    return commit_version(layout, lookup, open_versions(layout, lookup), rows).number


def date_back(folder: Path, version: int, days: int) -> None:
    """Let a version, and the files that it has written, be so old."""
    log = folder / "_delta_log" / f"{version:020}.json"
    time = datetime.now(UTC) - timedelta(days=days)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("commitInfo", {})["timestamp"] = int(time.timestamp() * 1000)
        action.get("remove", {})["deletionTimestamp"] = int(time.timestamp() * 1000)
        if "add" in action:
            os.utime(folder / action["add"]["path"], (time.timestamp(), time.timestamp()))
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize(("keep", "kept"), [("30d", [False, True, True, True]), ("5d", [False, False, True, True])])
def test_a_version_is_kept_from_when_it_was_replaced(
    keep: str, kept: list[bool], has_checkpoint: bool, tmp_path: Path
) -> None:
    """A checkpoint forgets which files were replaced more than a week ago."""
    layout, lookup = Layout(str(tmp_path)), declare(keep)
    folder = Path(layout.lookup(lookup))
    numbers = [commit(layout, lookup, value) for value in range(3)]
    for number, days in zip(numbers, (300, 200, 10), strict=True):
        date_back(folder, number, days)
    if has_checkpoint:
        open_table(str(folder), {}).create_checkpoint()
    numbers.append(commit(layout, lookup, 3))
    assert [is_kept(layout, lookup, number) for number in numbers] == kept
    whole = [number for number, of in zip(numbers, kept, strict=True) if of]
    values = [read_version(layout, lookup, number)["v"].to_pylist() for number in whole]
    assert values == [[value] for value, of in enumerate(kept) if of]
