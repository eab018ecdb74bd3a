"""A workspace that Hourline 0.1 wrote gets one clear sentence from every command that opens its tables."""

import io
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hourline import load_project
from hourline.cli import run
from hourline.initialise import initialise
from hourline_core.errors import OldWorkspaceError
from hourline_core.ledger.layout import Layout
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import open_table
from hourline_core.storage.version_retention import STREAMED

MOMENT = pa.timestamp("us", tz="UTC")
PROGRESS = pa.schema(
    {
        "sequence": pa.int64(),
        "topic_id": pa.string(),
        "metrics": pa.list_(pa.struct({"metric": pa.string(), "declaration": pa.string(), "born": pa.int64()})),
        "clock": MOMENT,
    }
)
COVERAGE = pa.schema({"metric": pa.string(), "hour": MOMENT, "cut": pa.int64(), "version": pa.int64()})
HOUR = datetime(2026, 3, 2, 8, tzinfo=UTC)


def write_table_of_0_1(tables: Path, place: str, schema: pa.Schema, row: Mapping[str, Any]) -> str:
    """A table as 0.1 made it, with the one property that it gave each of them."""
    uri = str(tables / place)
    DeltaTable.create(uri, schema, configuration={"hourline.table": place}, raise_if_key_not_exists=False)
    write_deltalake(uri, pa.Table.from_pylist([row], schema), mode="append")
    return uri


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the tables of 0.1 in its workspace: progress, and a published hour."""
    root = tmp_path / "shop"
    initialise(root)
    monkeypatch.chdir(root)
    tables = root / ".hourline" / "tables"
    written = {"metric": "views_by_page", "declaration": "0123abcd", "born": 1}
    row = {"sequence": 1, "topic_id": "topic-id", "metrics": [written], "clock": HOUR}
    write_table_of_0_1(tables, "progress/pageviews", PROGRESS, row)
    write_table_of_0_1(tables, "coverage", COVERAGE, {"metric": "views_by_page", "hour": HOUR, "cut": 1, "version": 0})
    return root


@pytest.mark.parametrize(
    "command",
    [
        "query|FROM hours",
        "query|FROM hours|--degraded",
        "query|FROM hours|--as-of|2026-03-02T09:00",
        "status",
        "plan",
        "recompute",
        "recompute|--from|2026-03-02T08|--to|2026-03-02T09",
        "backfill|--from|2026-03-02T08|--to|2026-03-02T09",
        "maintain",
        "maintain|--dry-run",
        "verify",
        "verify|--recount",
        "late",
        "advise|grace|pageviews",
        "drift",
        "quality",
        "audit|views_by_page|--from|2026-03-02T08|--to|2026-03-02T09",
        "expectations|suggest|views_by_page",
        "accept|views_by_page|2026-03-02T08|--reason|a sale",
        "accept|0123abcd@1|--reason|a sale",
        "changes|--since|p0-pageviews.1",
        "followers",
        "recompute|--problem|0123abcd",
        "explain|views_by_page|2026-03-02T08",
        "test|--record|views_by_page|2026-03-02T08",
        "export|old.duckdb",
        "sql",
        "shell",
        "reset|views_by_page|--dry-run",
        "serve",
    ],
)
def test_every_command_says_so_and_what_to_do(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    before = contents(shop)
    monkeypatch.setattr(sys, "argv", ["hourline", *command.split("|")])
    monkeypatch.setattr(sys, "stdin", io.StringIO("FROM hours;\n"))
    with pytest.raises(SystemExit) as ended:
        run()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (1, "")
    [line] = said.err.splitlines()
    assert line.startswith("hourline: the table at ")
    assert "was written by Hourline 0.1, and Hourline 0.2 cannot read such a workspace: use another " in line
    assert contents(shop) == before, "nothing was written into the tables"


def test_without_a_publication_it_is_told_all_the_same(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / ".hourline" / "tables" / "coverage").rename(shop / "coverage")
    monkeypatch.setattr(sys, "argv", ["hourline", "query", "FROM hours"])
    with pytest.raises(SystemExit):
        run()
    assert "progress/pageviews was written by Hourline 0.1" in capsys.readouterr().err


def test_a_writer_refuses_such_a_table_before_it_adds_columns(tmp_path: Path) -> None:
    row = {"sequence": 1, "topic_id": "topic-id", "metrics": [], "clock": HOUR}
    uri = write_table_of_0_1(tmp_path, "progress/pageviews", PROGRESS, row)
    wider = PROGRESS.append(pa.field("new", pa.string()))
    with pytest.raises(OldWorkspaceError):
        open_or_create(uri, {}, "progress", wider, STREAMED, "")
    assert DeltaTable(uri).version() == 1


def test_what_this_version_writes_it_reads(tmp_path: Path) -> None:
    uri = f"{tmp_path}/coverage"
    open_or_create(uri, {}, "coverage", COVERAGE, STREAMED, "")
    assert open_table(uri, {}).version() == 0


def contents(project: Path) -> dict[str, int]:
    """By path, the size of each file below the tables."""
    tables = Path(Layout.of(load_project(project)).root)
    return {str(file): file.stat().st_size for file in sorted(tables.rglob("*")) if file.is_file()}
