"""What tests beside Kafka Streams share: whether it can be asked, its times, and the numbers that a page states."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.peers.streams import compiler, fetch
from hourline_core.errors import SetupError
from hourline_core.model.hours import iso_text

_PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "compared-with.md"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def skip_without_compiler() -> None:
    """Skip the test if there is no compiler of Java."""
    if not compiler().exists():
        pytest.skip(f"Kafka Streams is asked by a program in Java, and there is no compiler {compiler()}")


def skip_without(jar_set: str) -> None:
    """Skip the test if there is no compiler of Java, or these jars cannot be fetched."""
    skip_without_compiler()
    try:
        fetch(jar_set)
    except SetupError as error:
        pytest.skip(f"Kafka Streams cannot be fetched: {error}")


def milliseconds(time: datetime | timedelta) -> int:
    """Those of a duration, or since 1970."""
    return (time - _EPOCH if isinstance(time, datetime) else time) // _MILLISECOND


def iso_time(time: int) -> str:
    """The time in milliseconds since 1970 as ISO text."""
    return iso_text(_EPOCH + time * _MILLISECOND)


def stated_numbers(section: str) -> dict[str, int]:
    """The numbers in the table of a section of docs/concepts/compared-with.md, by what they count."""
    return {what: numbers[0] for what, numbers in stated_columns(section).items()}


def stated_columns(section: str) -> dict[str, list[int]]:
    """The numbers in the tables of a section that have several columns of them, by what they count."""
    (text,) = re.findall(rf"^### {section}\n(.*?)^##", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| ([^|]*) \|((?: \d+ \|)+)", text, re.MULTILINE)
    return {what: [int(number) for number in re.findall(r"\d+", numbers)] for what, numbers in rows}
