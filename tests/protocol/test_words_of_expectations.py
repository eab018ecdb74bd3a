"""`quality` tells why something is expected, who is responsible, and where to read more, whether it passed or failed."""

from pathlib import Path

import pytest

import serving_layer
from hourline.cli.quality import say_quality
from hourline_core.model import Expectation
from serving_layer.reports.quality import report_quality
from tests.support import bare_tables
from tests.support.bare_tables import BareTables, hour

EXPECTED = Expectation(
    type="expect_column_values_to_be_between",
    parameters={"column": "n", "min_value": "1"},
    severity="warn",
    owner="the web desk",
    description="A click has a number.",
    link="https://example.com/clicks",
)


@pytest.mark.parametrize("success", [True, False])
def test_the_words_are_in_the_answer_and_on_the_terminal(
    success: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = bare_tables.METRICS["totals"].model_copy(update={"expectations": [EXPECTED]})
    monkeypatch.setattr(bare_tables, "METRICS", {**bare_tables.METRICS, "totals": declared})
    tables = BareTables(tmp_path, hours=[0, 0])
    finding = {
        "metric": "totals",
        "hour": hour(0),
        "expectation": EXPECTED.type,
        "about": "n",
        "origin": "user",
        "severity": "warn",
    }
    tables.findings = [{**finding, "success": success, "parameters": '{"column": "n", "min_value": "1"}'}]
    tables.start()
    tables.micro_batch(2)
    tables.publish(0, metrics=["totals"])
    with serving_layer.connect(tables.project) as connection:
        report = report_quality(connection, hour(0), "totals")
    (audit,) = report.hours
    told = {one.origin: (one.owner, one.description, one.link) for one in audit.findings}
    assert told == {
        "user": (EXPECTED.owner, EXPECTED.description, EXPECTED.link),
        "declaration": (None, None, None),
    }
    say_quality(report, findings=True)
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("A click has a number.", "owner: the web desk", "https://example.com"))
