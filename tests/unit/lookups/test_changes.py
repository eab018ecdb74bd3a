"""The keys and event times at which two versions of a lookup give an event other rows."""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups import version_files
from hourline_core.lookups.changes import END, FIRST, find_changes, key_columns
from hourline_core.lookups.versions import commit_version, open_versions, scan_differing
from hourline_core.model import Lookup
from tests.support.examples import examples
from tests.support.lookup_rows import take
from tests.unit.lookups.test_lookup_rows import LATEST, MOMENT, PRICE, READ, START, matches, prices

READ_RATES = pa.schema({"k": pa.int64(), "night": pa.bool_(), "since": MOMENT, "rate": pa.float64()})
TIMES = [START + timedelta(hours=12 * half) for half in range(-1, 10)]


@settings(max_examples=examples(100))
@given(prices, prices, st.sampled_from([PRICE, LATEST]), st.sampled_from([(), ("v",), ("v", "until")]))
def test_a_key_changes_when_an_event_of_it_would_meet_other_values(
    before: list[dict[str, Any]], now: list[dict[str, Any]], lookup: Lookup, values: tuple[str, ...]
) -> None:
    """Files have two rows, so keys have rows in several ones."""
    try:
        earlier, later = (take(lookup, pa.Table.from_pylist(rows, READ)).rows for rows in (before, now))
    except TableError:
        return
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_files, "_ROWS_OF_FILE", 2)
        layout = Layout(folder)
        first, second = (
            commit_version(layout, lookup, open_versions(layout, lookup), rows).number for rows in (earlier, later)
        )
        with scan_differing(layout, lookup, (first, second)) as (of_first, of_second):
            changed = find_changes(lookup, of_first, of_second, values, Path(folder)).to_pylist()
    for kind in "ab":
        for size in (1, 2):
            for time in TIMES:
                met = [meet(lookup, rows.to_pylist(), (kind, size), time, values) for rows in (earlier, later)]
                at = round(time.timestamp() * 1_000_000)
                named = [
                    one
                    for one in changed
                    if [one[name] for name in key_columns(lookup)] == [kind, size] and one[FIRST] <= at < one[END]
                ]
                assert len(named) == (met[0] != met[1])


@pytest.mark.parametrize("rows_of_file", [100, 1_000])
@pytest.mark.parametrize("valid_from", [None, "since"])
def test_versions_are_compared_as_they_are_stored(
    valid_from: str | None, rows_of_file: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have no ranges of a boolean."""
    monkeypatch.setattr(version_files, "_ROWS_OF_FILE", rows_of_file)
    lookup = Lookup.model_validate(
        {
            "name": "rate",
            "table": "rates.csv",
            "key": ["k", "night"],
            "columns": {"k": "long", "night": "boolean", "since": "timestamp", "rate": "double"},
            "valid_from": valid_from,
        }
    )
    layout, numbers = Layout(str(tmp_path)), list[int]()
    for changed in (-1, 700):
        rows = [{"k": k, "night": k % 2 == 0, "since": START, "rate": 1.0 + (k == changed)} for k in range(1_000)]
        read = pa.Table.from_pylist(rows, READ_RATES)
        version = commit_version(layout, lookup, open_versions(layout, lookup), take(lookup, read).rows)
        numbers.append(version.number)
    with scan_differing(layout, lookup, (numbers[0], numbers[1])) as (before, now):
        assert before.count_rows() == now.count_rows() == rows_of_file, "the others are in files that both have"
        (changed_key,) = find_changes(lookup, before, now, ["rate"], tmp_path).to_pylist()
    assert [changed_key[name] for name in key_columns(lookup)] == [700, True]


def meet(
    lookup: Lookup, rows: list[dict[str, Any]], key: tuple[str, int], time: Any, values: tuple[str, ...]
) -> list[list[Any]]:
    always = {} if lookup.is_valid_at_times else {"since": None, "until": None}
    return [[row[name] for name in values] for row in rows if matches([{**row, **always}], key, time)]


def test_values_that_are_no_number_are_equal(tmp_path: Path) -> None:
    lookup = Lookup.model_validate(
        {
            "name": "rate",
            "table": "rates.csv",
            "key": "k",
            "columns": {"k": "string", "since": "date", "rate": "double"},
            "valid_from": "since",
        }
    )
    rows = pa.table({"k": ["a"], "since": pa.array([None], pa.date32()), "rate": [float("nan")]})
    other = rows.set_column(1, "since", pa.array([START.date()], pa.date32()))
    (changed,) = find_changes(lookup, ds.dataset(rows), ds.dataset(other), ["rate"], tmp_path).to_pylist()
    assert changed[END] == round(START.timestamp() * 1_000_000), "from then on, both have it"
