"""What commands print for programs and for people."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from hourline.cli.output import number_text, say_json, say_result
from hourline.cli.recompute_report import report_waiting


def test_json_for_programs_keeps_the_fractions_of_seconds_and_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    moments = [
        datetime(2024, 3, 1, 10, 5, 30, 250_000, UTC),
        datetime(2024, 3, 1, 10, tzinfo=UTC),
        datetime(987, 1, 5, 14, tzinfo=UTC),
    ]
    say_json({"moments": moments, "measures": [{"mean": float("nan")}, {"mean": 1.5}]})
    found = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert [datetime.fromisoformat(text) for text in found["moments"]] == moments
    assert found["measures"] == [{"mean": None}, {"mean": 1.5}]


def test_json_for_programs_has_sums_as_numbers_with_all_their_digits(capsys: pytest.CaptureFixture[str]) -> None:
    sums = [Decimal(2**53 + 1), Decimal("10.00"), Decimal("12.5")]
    say_json({"sums": sums})
    assert json.loads(capsys.readouterr().out) == {"sums": [2**53 + 1, 10, 12.5]}


def test_frequent_values_are_told_with_the_bounds_of_their_counts() -> None:
    known = {"value": "JFK", "count": 3, "error": 0}
    assert number_text([known, {"value": "LGA", "count": 1_000, "error": 24}]) == "JFK 3, LGA 1,000 to 1,024"
    assert number_text([{"value": None, "count": 0, "error": 5}]) == "none more than 5 times"


def test_a_result_tells_null_from_the_text_null_and_from_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    say_result(["text", "n"], [(None, None), ("null", 1), ("", 2), ("a", 3)], ["n"])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["null", "null"],
        ["'null'", "1"],
        ["''", "2"],
        ["a", "3"],
    ]


@pytest.mark.parametrize(("on_terminal", "advice"), [(True, "; Ctrl-C gives up"), (False, "")])
def test_a_log_advises_no_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, on_terminal: bool, advice: str
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: on_terminal)
    report_waiting(4711)
    assert capsys.readouterr().err == (f"waiting for process 4711, which recomputes hours of this project{advice}\n")
