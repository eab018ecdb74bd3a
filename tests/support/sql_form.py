"""A metric in SQL over a source of flights, and the mistakes of its statement."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError
from hourline_core.model import Metric
from hourline_core.model.sql_form.keys import StatementKeys

SOURCE = "topic: t\nfields: {at: timestamp, origin: string, tail: string, delay: int}\nevent_time: at\n"


def write_flights(folder: Path, metric: str) -> Path:
    """Write a project with a source of flights and this file of a metric."""
    for name, text in {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "metrics/m.yaml": metric}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def in_sql(statement: str) -> str:
    """The file of a metric that is this statement."""
    return "sql: |\n" + "".join(f"  {line}\n" for line in statement.splitlines())


def metric_of(statement: str) -> Metric:
    keys = StatementKeys(statement, {})
    assert not keys.mistakes
    return Metric(name="m", **keys.values)


def mistakes(folder: Path, metric: str) -> list[str]:
    """What is said of this file of a metric, line by line."""
    with pytest.raises(DeclarationError) as caught:
        load_project(write_flights(folder, metric), {})
    return str(caught.value).splitlines()
