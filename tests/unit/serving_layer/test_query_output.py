"""The rows of a query, for a table on the terminal."""

from pathlib import Path

import pytest

import serving_layer
from hourline_core.errors import UsageError
from hourline_core.model import Project, Settings
from serving_layer.query_output import fetch


@pytest.mark.parametrize("value", ["TIMESTAMPTZ 'infinity'", "TIMESTAMP '20000-01-01'", "DATE '-infinity'"])
def test_a_time_that_python_cannot_hold_gets_one_sentence(tmp_path: Path, value: str) -> None:
    with serving_layer.connect(Project(tmp_path, Settings(), {}, {})) as connection:
        with pytest.raises(
            UsageError, match=r"column 'far' has a time outside the years 1 to 9999, .* cast it to VARCHAR"
        ):
            fetch(connection, f"SELECT 1 AS n, {value} AS far")
        assert fetch(connection, f"SELECT ({value})::VARCHAR AS far").rows
