"""The changed results that a sink sends."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from hourline_core.ledger.layout import TIMESTAMP
from serving_layer.sinks.sent_results import SentResults

EIGHT, SEVEN = (datetime(2024, 3, 1, hour, tzinfo=UTC) for hour in (8, 7))


def rows_of(*keys: str, late: str = "") -> pa.RecordBatchReader:
    """Results of the hour from seven, and those of ``late`` of the hour from eight."""
    starts = [EIGHT if key in late else SEVEN for key in keys]
    return pa.table(
        {
            "key": keys,
            "value": ["{}"] * len(keys),
            "window_start": pa.array(starts, TIMESTAMP),
            "window_end": pa.array([start + timedelta(hours=1) for start in starts], TIMESTAMP),
        }
    ).to_reader()


def test_each_result_has_its_own_window(tmp_path: Path) -> None:
    sent = SentResults(tmp_path / "sent.duckdb")
    (changed,) = sent.find_changes(rows_of(*"abc", late="c"), None, [])
    windows = [(start, start + timedelta(hours=1)) for start in (SEVEN, SEVEN, EIGHT)]
    assert [(one.key, one.window) for one in changed] == list(zip("abc", windows, strict=True))
    sent.close()


def test_a_value_with_another_schema_is_sent_again(tmp_path: Path) -> None:
    sent = SentResults(tmp_path / "sent.duckdb")
    for schema, changed in (("01", ["a"]), ("01", []), ("02", ["a"]), ("02", []), ("", ["a"])):
        sent.begin("topic", schema)
        found = [one for part in sent.find_changes(rows_of("a"), None, []) for one in part]
        assert [one.key for one in found] == changed
        sent.keep(found, 1)
    sent.close()


def test_what_is_gone_of_a_window_comes_before_what_is_there(tmp_path: Path) -> None:
    sent = SentResults(tmp_path / "sent.duckdb")
    (before,) = sent.find_changes(rows_of(*"bdef", late="f"), None, [])
    sent.keep(before, 1)
    (changed,) = sent.find_changes(rows_of(*"acgh", late="gh"), None, [])
    assert "".join(one.key.upper() if one.value else one.key for one in changed) == "bdeACfGH"
    sent.close()
