"""The connection that people query."""

from pathlib import Path

import pytest

import serving_layer
from hourline_core.errors import TableError
from hourline_core.model import Project, Settings
from serving_layer.open_snapshot import NEWEST


def test_a_refresh_that_fails_leaves_the_snapshot_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TableError("a disk that is away for a moment")

    with serving_layer.connect(Project(tmp_path, Settings(), {}, {})) as connection:
        monkeypatch.setattr(NEWEST, "open", fail)
        with pytest.raises(TableError, match="away for a moment"):
            connection.refresh()
        assert connection.sql("SELECT count(*) FROM hours").fetchall() == [(0,)]


def test_a_refresh_of_a_degraded_connection_that_fails_leaves_what_it_tells_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TableError("a disk that is away for a moment")

    with serving_layer.connect(Project(tmp_path, Settings(), {}, {}), degraded=True) as connection:
        before = (connection.snapshot, connection.taken)
        monkeypatch.setattr("serving_layer.open_snapshot.table_parts", fail)
        with pytest.raises(TableError, match="away for a moment"):
            connection.refresh()
        assert (connection.snapshot, connection.taken) == before
        assert connection.sql("SELECT count(*) FROM hours").fetchall() == [(0,)]
