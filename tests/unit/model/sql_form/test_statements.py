"""A metric in SQL is the metric in YAML that it means."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.model import Measure, declaration_hash
from tests.support.sql_form import SOURCE, in_sql, write_flights

ANSI = """SELECT
  origin,
  date_format(event_time, 'E, it''s') AS day,  -- it's a comment
  TUMBLE(event_time, INTERVAL '1' HOUR),
  COUNT(*) AS n,
  SUM(delay) FILTER (WHERE delay > 0) AS delay
FROM flights
WHERE tail IS DISTINCT FROM 'x'
GROUP BY origin, date_format(event_time,'E, it''s'), TUMBLE(event_time, INTERVAL '1' HOUR);
"""
KSQLDB = """SELECT origin, date_format(event_time, 'E, it''s') AS day, COUNT(*) n, SUM(delay) FILTER(WHERE delay > 0) delay
FROM flights WINDOW TUMBLING (SIZE 1 HOUR) WHERE tail IS DISTINCT FROM 'x' GROUP BY 1, DAY EMIT CHANGES
"""
FLINK = """SELECT window_start, window_end, origin, date_format(event_time, 'E, it''s') AS day,
  COUNT(1) AS n, SUM(delay) FILTER (WHERE delay > 0) AS delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(at), INTERVAL '1' HOUR)) WHERE tail IS DISTINCT FROM 'x'
GROUP BY window_start, window_end, origin, day
"""
IN_YAML = """source: flights
where: tail IS DISTINCT FROM 'x'
dimensions: [origin, day: "date_format(event_time, 'E, it''s')"]
measures: {n: count, delay: "sum(delay) where delay > 0"}
"""


@pytest.mark.parametrize("statement", [ANSI, KSQLDB, FLINK], ids=["ansi", "ksqldb", "flink"])
def test_a_statement_is_the_declaration_that_it_means(tmp_path: Path, statement: str) -> None:
    (tmp_path / "yaml").mkdir()
    (tmp_path / "sql").mkdir()
    meant = load_project(write_flights(tmp_path / "yaml", IN_YAML), {})
    project = load_project(write_flights(tmp_path / "sql", in_sql(statement)), {})
    metric = project.metrics["m"]
    assert metric == meant.metrics["m"]
    assert declaration_hash(project.source_of(metric), metric) == declaration_hash(
        meant.source_of(metric), meant.metrics["m"]
    )


def test_a_quotient_is_of_the_names_of_other_items(tmp_path: Path) -> None:
    items = "COUNT(*) AS n, SUM(delay) AS late, RATE(n) AS per_second, rate(late) AS lateness, RATIO(late, n) AS each"
    metric = load_project(write_flights(tmp_path, in_sql(f"SELECT {items} FROM flights")), {}).metrics["m"]
    texts = {"n": "count", "late": "sum(delay)", "per_second": "rate(n)", "lateness": "rate(late)"}
    assert metric.measures == {name: Measure.parse(text) for name, text in {**texts, "each": "ratio(late, n)"}.items()}


def test_a_field_with_the_name_of_a_bound_is_a_field(tmp_path: Path) -> None:
    project = write_flights(tmp_path, in_sql("SELECT hour AS h, COUNT(*) AS n FROM flights GROUP BY hour"))
    (project / "sources/flights.yaml").write_text(SOURCE.replace("origin:", "hour: int, origin:"))
    assert load_project(project, {}).metrics["m"].dimensions == {"h": "hour"}
