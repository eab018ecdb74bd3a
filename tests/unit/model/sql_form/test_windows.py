"""The window of a statement is the window of a metric, whichever dialect says it."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.sql_form.keys import StatementKeys
from tests.support.sql_form import in_sql, mistakes, write_flights


@pytest.mark.parametrize(
    ("window", "key"),
    [
        ("TUMBLE(event_time, INTERVAL '1' HOUR)", None),
        ("TUMBLE_START(event_time, INTERVAL 1 HOUR)", None),
        ("window(event_time, '1 hour')", None),
        ("TUMBLE(event_time, INTERVAL '3' HOURS)", "3 hours"),
        ("TUMBLE(event_time, INTERVAL '1 day')", "1 day"),
        ("HOP(event_time, INTERVAL '1' MONTH, INTERVAL '1' YEAR)", {"size": "1 year", "every": "1 month"}),
        ("HOP(event_time, INTERVAL '1' HOUR, INTERVAL '1' DAY)", {"size": "24 hours", "every": "1 hour"}),
        ("HOP(event_time, INTERVAL '5' MINUTE, INTERVAL '1' DAY)", {"size": "24 hours", "every": "5 minutes"}),
        ("window(event_time, '2 days', '1 day')", {"size": "2 days", "every": "1 day"}),
        ("SESSION(event_time, INTERVAL '30' MINUTE)", {"gap": "30m"}),
        ("session_window(event_time, '90 seconds')", {"gap": "90s"}),
    ],
)
def test_a_window_function_is_a_window(window: str, key: object) -> None:
    keys = StatementKeys(f"SELECT COUNT(*) AS n FROM s GROUP BY {window}", {})
    assert (keys.values.get("window"), keys.mistakes) == (key, [])


@pytest.mark.parametrize(
    ("clause", "key"),
    [
        ("TUMBLING (SIZE 1 HOUR)", None),
        ("TUMBLING (SIZE 1 WEEK)", "1 week"),
        ("HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR)", {"size": "24 hours", "every": "1 hour"}),
    ],
)
def test_a_window_clause_of_ksqldb_is_a_window(clause: str, key: object) -> None:
    keys = StatementKeys(f"SELECT COUNT(*) AS n FROM s WINDOW {clause} GROUP BY a", {})
    assert keys.values.get("window") == key


def test_sessions_in_sql_are_those_of_ksqldb(tmp_path: Path) -> None:
    statement = "SELECT origin, COUNT(*) AS n FROM flights WINDOW SESSION (30 MINUTES) GROUP BY origin EMIT CHANGES"
    metric = load_project(write_flights(tmp_path, in_sql(statement)), {}).metrics["m"]
    assert metric.window == SessionWindow(gap=timedelta(minutes=30))


def test_a_window_stands_beside_a_statement_that_says_none(tmp_path: Path) -> None:
    window = "window: {size: 1 day, zone: Europe/Berlin}\n"
    metric = window + in_sql("SELECT COUNT(*) AS n FROM flights")
    assert str(load_project(write_flights(tmp_path, metric), {}).metrics["m"].window) == "1 day in Europe/Berlin"
    hourly = in_sql("SELECT COUNT(*) AS n FROM flights WINDOW TUMBLING (SIZE 1 HOUR)")
    [only] = mistakes(tmp_path, window + hourly)
    assert only == "metrics/m.yaml:1: window: got it beside sql, whose statement says it: leave it out"
