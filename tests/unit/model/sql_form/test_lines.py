"""A mistake in a statement has its own line of the file, and is told once."""

from pathlib import Path

import pytest

from tests.support.sql_form import in_sql, mistakes


def test_all_mistakes_of_a_statement_are_listed_at_once(tmp_path: Path) -> None:
    statement = "SELECT\n a,\n SUM(DISTINCT b) AS c,\n rank() OVER (ORDER BY d) AS e\nFROM flights AS f"
    assert [one.split(":")[1] for one in mistakes(tmp_path, in_sql(statement))] == ["3", "4", "5", "6"]


def test_what_the_declaration_refuses_has_the_line_of_its_item(tmp_path: Path) -> None:
    statement = "SELECT\n Origin,\n COUNT(*) AS n,\n MODE(delay) AS m\nFROM flights\nGROUP BY Origin"
    dimension, measure = mistakes(tmp_path, in_sql(statement))
    assert dimension.startswith("metrics/m.yaml:3: dimensions.Origin: got the name 'Origin', allowed are lower-case")
    assert measure.startswith("metrics/m.yaml:5: measures.m: got 'mode(delay)', which cannot be merged from partial")


def test_a_rate_of_what_is_no_measure_has_the_line_of_its_item(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, in_sql("SELECT COUNT(*) AS n,\n RATE(m) AS per_second\nFROM flights"))
    assert only.startswith("metrics/m.yaml:3: measures.per_second: got 'm', allowed is a measure of this metric")


def test_a_source_that_is_not_there_has_the_line_of_from(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, in_sql("SELECT COUNT(*) AS n\nFROM flight"))
    assert only.startswith("metrics/m.yaml:3: source: got 'flight', which is no source of this project")


def test_a_mistake_in_group_by_causes_no_second_one(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, in_sql("SELECT origin, COUNT(*) AS n\nFROM flights\nGROUP BY CUBE(origin)"))
    assert "got CUBE" in only


@pytest.mark.parametrize("key", ["source: flights", "dimensions: [origin]", "measures: {n: count}", "where: delay > 0"])
def test_a_key_that_a_statement_says_is_refused_beside_it(tmp_path: Path, key: str) -> None:
    [only] = mistakes(tmp_path, f"{key}\n" + in_sql("SELECT COUNT(*) AS n FROM flights"))
    assert (
        only
        == f"metrics/m.yaml:1: {key.split(':', maxsplit=1)[0]}: got it beside sql, whose statement says it: leave it out"
    )


@pytest.mark.parametrize("value", ["", "[a]", "{a: b}"])
def test_only_text_is_a_statement(tmp_path: Path, value: str) -> None:
    [only] = mistakes(tmp_path, f"sql: {value}\n")
    assert only.startswith("metrics/m.yaml:1: sql: got ") and "allowed is one statement" in only


def test_a_folded_statement_has_the_line_of_its_key(tmp_path: Path) -> None:
    [only] = mistakes(tmp_path, "sql: >\n  SELECT COUNT(*) AS n\n  FROM flights\n  LIMIT 3\n")
    assert only.startswith("metrics/m.yaml:1: sql: got LIMIT")
