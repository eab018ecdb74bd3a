"""Tables of a real PostgreSQL as lookups: what is read, what is refused and why, and where the password may not be."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hourline_core.child_environment import child_environment
from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups import read_postgres
from hourline_core.lookups.refresh import LookupState, read_rows, refresh
from hourline_core.lookups.versions import read_version
from hourline_core.model import Lookup, Project, Settings
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.airflow.postgres import USER, Postgres
from hourline_core.runtime.call_within import MOST_ABANDONED
from tests.support.project_files import write_project

CANARY = "canary-4711-word"
LONG = Decimal("12345678901234567890.123456789012345678")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    folder = tmp_path_factory.mktemp("postgres")
    with Postgres(folder / "data", CANARY, folder / "log") as postgres:
        yield postgres


@pytest.fixture
def database(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator["psycopg.Connection[Any]"]:
    """A connection. Whoever else connects finds the password in the environment."""
    monkeypatch.setenv("PGPASSWORD", CANARY)
    with psycopg.connect(server.url, autocommit=True) as connection:
        yield connection
        connection.execute("DROP SCHEMA IF EXISTS fleet CASCADE")


def address(server: Postgres, table: str = "fleet.planes", options: str = "") -> str:
    return f"{server.url.replace(f':{CANARY}', '')}?table={table}{options}"


def declare(root: Path, table: str, columns: dict[str, Any], **settings: Any) -> Project:
    declared = {"name": "plane", "key": next(iter(columns)), "columns": columns, "table": table, **settings}
    return Project(root, Settings(), {}, {}, lookups={"plane": Lookup.model_validate(declared)})


def refresh_plane(project: Project) -> LookupState:
    return refresh(project, project.lookups["plane"], wall_clock)


def rows_of(project: Project) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_rows(project, project.lookups["plane"]).rows.to_pylist()
    return rows


def create(database: "psycopg.Connection[Any]", columns: str, *rows: str) -> None:
    database.execute("CREATE SCHEMA fleet")
    database.execute(f"CREATE TABLE fleet.planes ({columns})")
    for row in rows:
        database.execute(f"INSERT INTO fleet.planes VALUES ({row})")


def test_each_type_is_read_as_it_is(server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path) -> None:
    database.execute("CREATE SCHEMA fleet")
    database.execute("CREATE TYPE fleet.mood AS ENUM ('calm', 'wild')")
    database.execute("CREATE DOMAIN fleet.tail AS varchar(8)")
    database.execute(
        'CREATE TABLE fleet.planes ("Tail No" fleet.tail, a smallint, b integer, c bigint, d numeric(10,2), e numeric, '
        "f real, g double precision, h text, i char(2), j boolean, k date, l timestamptz, m uuid, n fleet.mood, o numeric)"
    )
    database.execute(
        "INSERT INTO fleet.planes VALUES ('N1', -1, 2147483647, 9223372036854775807, 3.25, "
        f"{LONG}, 1.5, 0.1, 'ünï', 'ab', true, '2024-02-29', '2024-02-29 12:00:00.000001+02', "
        "'00000000-0000-0000-0000-00000000000a', 'wild', 7.0)"
    )
    database.execute("""INSERT INTO fleet.planes ("Tail No") VALUES ('N2'), (NULL)""")
    types = {"a": "int", "b": "long", "c": "long", "d": "decimal(12,2)", "e": "decimal(38,18)", "f": "double"}
    types |= {"g": "double", "h": "string", "i": "string", "j": "boolean", "k": "date", "l": "timestamp"}
    types |= {"m": "string", "n": "string", "o": "long"}
    columns = {"tail": {"type": "string", "column": "Tail No"}, **types}
    project = declare(tmp_path, address(server), columns)
    state = refresh_plane(project)
    assert (state.problem, state.null_keys) == (None, 1)
    assert state.version
    first: dict[str, Any] = {
        "tail": "N1",
        **{"a": -1, "b": 2**31 - 1, "c": 2**63 - 1, "d": Decimal("3.25"), "e": LONG, "f": 1.5, "g": 0.1},
        **{"h": "ünï", "i": "ab", "j": True, "k": date(2024, 2, 29)},
        "l": datetime(2024, 2, 29, 10, 0, 0, 1, tzinfo=UTC),
        **{"m": "00000000-0000-0000-0000-00000000000a", "n": "wild", "o": 7},
    }
    kept = read_version(Layout.of(project), project.lookups["plane"], state.version.number).to_pylist()
    assert kept == [first, {name: "N2" if name == "tail" else None for name in first}]


def test_a_view_is_read_as_a_table_is(server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path) -> None:
    create(database, "tail text, at timestamp", "'N1', '2024-01-01 00:00:00'")
    database.execute("CREATE VIEW fleet.\"My View\" AS SELECT tail, at AT TIME ZONE 'UTC' AS at FROM fleet.planes")
    columns = {"tail": "string", "at": "timestamp"}
    project = declare(tmp_path, address(server, "fleet.My+View"), columns)
    assert rows_of(project) == [{"tail": "N1", "at": datetime(2024, 1, 1, tzinfo=UTC)}]


@pytest.mark.parametrize(
    ("of", "value", "declared", "words"),
    [
        ("json", "'{}'", "string", "column 'v' of .* is of type json, which cannot be read: allowed are smallint, "),
        ("integer[]", "'{1}'", "int", r"is of type integer\[\], which cannot be read"),
        ("money", "1", "long", "is of type money, which cannot be read"),
        ("timestamp", "'2024-01-01'", "timestamp", "timestamp without time zone, which cannot be read; a time needs"),
        ("interval", "'1 day'", "string", "is of type interval, which cannot be read"),
        ("bytea", "'a'", "string", "is of type bytea, which cannot be read"),
        ("integer", "1", "string", "is of type integer, and declared as string, allowed is int or long or float"),
        ("text", "'1'", "int", "is of type text, and declared as int, allowed is string"),
        ("double precision", "1", "float", "declared as float, allowed is double"),
        ("bigint", "2147483648", "int", "in the row of tail 'N1', has a value that is no int"),
        ("numeric", "1.255", "decimal(10,2)", r"has a value that is no decimal\(10,2\)"),
        ("numeric", "'NaN'", "decimal(10,2)", r"has a value that is no decimal\(10,2\)"),
        ("numeric(12,2)", "1234567890.12", "decimal(10,2)", r"has a value that is no decimal\(10,2\)"),
        ("numeric", "1.5", "long", "in the row of tail 'N1', has a value that is no long"),
        ("date", "'infinity'", "date", "has a date or time that is infinity, allowed is null in its place"),
        ("timestamptz", "'-infinity'", "timestamp", "has a date or time that is infinity, allowed is null"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused_with_a_reason(
    server: Postgres,
    database: "psycopg.Connection[Any]",
    of: str,
    value: str,
    declared: str,
    words: str,
    tmp_path: Path,
) -> None:
    create(database, f"tail text, v {of}", f"'N1', {value}", "'N2', NULL")
    with pytest.raises(TableError, match=words):
        rows_of(declare(tmp_path, address(server), {"tail": "string", "v": declared}))


def test_a_table_that_is_not_there_or_too_large_is_refused(
    server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path
) -> None:
    create(database, "tail text, seats int", "'N1', 1", "'N2', 2")
    columns = {"tail": "string", "seats": "int"}
    assert len(rows_of(declare(tmp_path, address(server), columns, most_rows=2))) == 2
    with pytest.raises(TableError, match="has more than 1 rows"):
        rows_of(declare(tmp_path, address(server), columns, most_rows=1))
    with pytest.raises(TableError, match=r"there is no table or view fleet\.plains that this user may see"):
        rows_of(declare(tmp_path, address(server, "fleet.plains"), columns))
    with pytest.raises(TableError, match="has no column 'setas' — did you mean 'seats'"):
        rows_of(declare(tmp_path, address(server), {"tail": "string", "setas": "int"}))


def test_a_server_that_is_away_leaves_the_version_before(
    server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path
) -> None:
    create(database, "tail text, seats int", "'N1', 1")
    project = declare(tmp_path, address(server), {"tail": "string", "seats": "int"})
    before = refresh_plane(project)
    assert before.version
    away = declare(tmp_path, re.sub(":[0-9]+/", ":1/", address(server)), {"tail": "string", "seats": "int"})
    state = refresh_plane(away)
    assert state.version == before.version
    assert "cannot be read" in (state.problem or "")
    database.execute("DELETE FROM fleet.planes")
    database.execute("INSERT INTO fleet.planes VALUES ('N1', 2)")
    again = refresh_plane(project)
    assert again.problem is None
    assert again.version
    assert again.version.number == before.version.number + 1


def test_a_statement_that_takes_too_long_is_refused(
    server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_postgres, "_STATEMENT", "50ms")
    create(database, "tail text")
    project = declare(tmp_path, address(server), {"tail": "string"})
    with psycopg.connect(server.url) as other:
        other.execute("LOCK TABLE fleet.planes IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TableError, match="canceling statement due to statement timeout"):
            rows_of(project)


def test_a_server_that_does_not_answer_is_not_waited_for(
    server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(database, "tail text", "'N1'")
    project = declare(tmp_path, address(server), {"tail": "string"})
    with psycopg.connect(server.url) as other, monkeypatch.context() as patch:
        other.execute("LOCK TABLE fleet.planes IN ACCESS EXCLUSIVE MODE")
        patch.setattr(read_postgres, "_SECONDS", 0.5)
        for _ in range(MOST_ABANDONED):
            with pytest.raises(TableError, match=r"was not read within 0\.5 seconds, which are allowed: its server"):
                rows_of(project)
        with pytest.raises(TableError, match="is not read again: 3 earlier reads of this process still wait"):
            rows_of(project)
    rows = None
    while rows is None:  # until one of them has ended
        with suppress(TableError):
            rows = rows_of(project)
    assert rows == [{"tail": "N1"}]


def test_the_password_of_a_file_is_used(
    server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(database, "tail text", "'N1'")
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "passwords"
    file.write_text(f"*:*:*:{USER}:{CANARY}\n")
    file.chmod(0o600)
    project = declare(tmp_path, address(server, options=f"&passfile={file}"), {"tail": "string"})
    assert rows_of(project) == [{"tail": "N1"}]
    file.write_text(f"*:*:*:{USER}:wrong-{CANARY}\n")
    with pytest.raises(TableError, match="password authentication failed") as refused:
        rows_of(project)
    assert CANARY not in str(refused.value)


def test_the_password_is_in_no_table_message_or_list_of_processes(
    server: Postgres, database: "psycopg.Connection[Any]", tmp_path: Path
) -> None:
    create(database, "tail text", "'N1'")
    lookup = f"table: {address(server)}\nkey: tail\ncolumns: {{tail: string}}\n"
    source = "topic: flights\nfields: {tail: string, at: timestamp}\nevent_time: at\n"
    files = {"hourline.yaml": "", "sources/flights.yaml": source, "lookups/plane.yaml": lookup}
    root = write_project(tmp_path / "air", files)
    arguments = [sys.executable, "-m", "hourline", "lookups", "--refresh", "--project", str(root)]
    with psycopg.connect(server.url) as other:
        other.execute("LOCK TABLE fleet.planes IN ACCESS EXCLUSIVE MODE")
        child = subprocess.Popen(
            arguments, env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while child.poll() is None and database.execute(waiting).fetchone() == (0,):
            pass
        seen = [_command_line(process) for process in Path("/proc").iterdir() if process.name.isdecimal()]
        assert any(str(root) in line for line in seen)
        queries = database.execute("SELECT string_agg(query, ' ') FROM pg_stat_activity").fetchone()
    output, _ = child.communicate()
    assert child.returncode == 0, output
    done = subprocess.run(
        arguments,
        env={**child_environment(), "PGPASSWORD": f"wrong-{CANARY}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "password authentication failed" in done.stdout + done.stderr
    kept = [file.read_bytes() for file in root.rglob("*") if file.is_file()]
    assert any(b"planes" in content for content in kept)
    for text in (*seen, str(queries), output, done.stdout, done.stderr):
        assert CANARY not in text
    assert not any(CANARY.encode() in content for content in kept)


def _command_line(process: Path) -> str:
    with suppress(OSError):
        return (process / "cmdline").read_text(errors="replace")
    return ""
