"""A source of CSV or of texts validates its records as any other: accepted, rejected with a reason, or a tombstone."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hourline import load_project
from hourline_core.formats.schema_fields import describe_following_fields, find_unreadable
from hourline_core.model import Source
from hourline_core.model.decoding import decoding_of, describe_changes
from hourline_core.model.record_format import RecordFormat
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    OUTCOME,
    REASON,
    RECORD_TIMESTAMP_TYPE,
    VALUE,
)
from hourline_core.validation.validator import Validator
from tests.support.declaration_mistakes import METRIC
from tests.support.project_files import write_project
from tests.support.validated_sources import NOW, as_table

FIELDS = {"at": "timestamp", "amount": {"type": "decimal(10,2)", "required": True}}
CSV = {"csv": {"columns": ["id", "at", "amount"], "delimiter": ";"}}
TEXT = {"text": {"pattern": r"(?P<at>\S+) amount=(?P<amount>\S*)"}}


def source(format: str | dict[str, Any]) -> Source:
    return Source.model_validate({"name": "s", "topic": "t", "event_time": "at", "format": format, "fields": FIELDS})


@pytest.mark.parametrize(
    ("format", "written"),
    [
        (CSV, "1;{at};{amount}"),
        (CSV, '"1";"{at}";{amount}\r\n'),
        (TEXT, "{at} amount={amount}\n"),
    ],
)
def test_records_are_accepted_or_rejected(format: dict[str, Any], written: str) -> None:
    def record(at: str, amount: str) -> bytes:
        return written.format(at=at, amount=amount).encode()

    at = "2026-03-29T10:00:00Z"
    values = [record(at, "2.5"), record(at, ""), record(at, "x"), record("soon", "1"), None, b"", record(at, "7")]
    rows = [{VALUE: value, ARRIVED: NOW, RECORD_TIMESTAMP_TYPE: "create"} for value in values]
    found = Validator(source(format)).validate(as_table(rows)).to_pylist()
    assert [row[OUTCOME] for row in found] == ["accepted", *["rejected"] * 3, "tombstone", "rejected", "accepted"]
    assert [row[REASON] for row in found[1:3]] == [
        "required field 'amount' is missing or null",
        "field 'amount': got \"x\", want decimal(10,2)",
    ]
    assert found[3][REASON].startswith("field 'at': got \"soon\", want timestamp")
    assert found[5][REASON] == "empty value"
    assert [row[VALUE] for row in found] == values
    moment = datetime(2026, 3, 29, 10, tzinfo=UTC)
    assert [(row[EVENT_TIME], row["at"], str(row["amount"])) for row in (found[0], found[6])] == [
        (moment, moment, "2.50"),
        (moment, moment, "7.00"),
    ]


def test_a_format_is_part_of_the_decoding() -> None:
    json, csv, text = (decoding_of(source(format)) for format in ("json", CSV, TEXT))
    other = decoding_of(source({"csv": {**CSV["csv"], "null_text": "NA"}}))
    assert len({one.hash for one in (json, csv, text, other)}) == 4
    assert decoding_of(source(CSV)) == csv
    (change,) = describe_changes(csv, other)
    assert "null_text" in change
    # Workers of Spark keep a decoder for each format.
    assert len({RecordFormat.model_validate(format) for format in (CSV, TEXT, CSV)}) == 2


@pytest.mark.parametrize("format", ["csv: {columns: [at, amount]}", "text: {pattern: '(?P<at>.*) (?P<amount>.*)'}"])
def test_check_shows_the_fields_that_follow(tmp_path: Path, format: str) -> None:
    files = {"hourline.yaml": "", "metrics/m.yaml": METRIC}
    declared = f"topic: t\nformat: {{{format}}}\nevent_time: at\n"
    project = load_project(write_project(tmp_path, {**files, "sources/s.yaml": declared}), {})
    assert [*describe_following_fields(project)] == ["s: fields at: string, amount: string"]
    assert [*find_unreadable(project)] == []
