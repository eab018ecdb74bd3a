"""The changed results that a sink sends."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from hourline_core.ledger.layout import TIMESTAMP
from serving_layer.sinks.sent_results import SentResults


def test_each_result_has_its_own_window(tmp_path: Path) -> None:
    starts = [datetime(2024, 3, 1, hour, tzinfo=UTC) for hour in (7, 7, 8)]
    windows = [(start, start + timedelta(hours=1)) for start in starts]
    rows = pa.table(
        {
            "key": ["a", "b", "c"],
            "value": ["{}"] * 3,
            "window_start": pa.array([start for start, _ in windows], TIMESTAMP),
            "window_end": pa.array([end for _, end in windows], TIMESTAMP),
        }
    )
    sent = SentResults(tmp_path / "sent.duckdb")
    (changed,) = sent.find_changes(rows.to_reader(), None, [])
    assert [(one.key, one.window) for one in changed] == list(zip("abc", windows, strict=True))
    sent.close()
