"""Mistakes in the declaration of a lookup."""

from pathlib import Path
from textwrap import dedent

import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import Lookup, load_project
from tests.support.project_files import write_project

SOURCE = """
    topic: flights
    fields: {tail: string, at: timestamp}
    event_time: at
    """


@pytest.mark.parametrize(
    ("declared", "mistake"),
    [
        ("key: x", "1: columns: is missing"),
        ("key: x\ncolumns: {tail: string}", "2: key: got 'x', which is not among the columns: tail"),
        ("key: tail\ncolumns: {tail: double}", "2: key: got 'tail' of type double, allowed are the types string, int"),
        ("key: tail\ncolumns: {tail: array<string>}", "3: columns.tail.type: got 'array<string>', allowed are string"),
        ("key: tail\ncolumns: {tail: json}", "3: columns.tail.type: got 'json', allowed are string"),
        ("key: tail\ncolumns: {tail: string}\nvalid_from: since", "4: valid_from: got 'since', which is not among"),
        ("key: tail\ncolumns: {tail: string}\nvalid_from: tail", "4: valid_from: got 'tail' of type string, allowed"),
        ("key: tail\ncolumns: {tail: string, Tail: int}", "3: columns.Tail: got the name 'Tail'"),
        ("key: tail\ncolumns: {tail: string}\nrefresh: 10ms", "4: refresh: got less than a second"),
        ("key: tail\ncolumns: {tail: string}\nmost_rows: 0", "4: most_rows: got '0', allowed is a whole number from 1"),
        ("key: tail\ncolumns: {tail: string}\nnulls: [NA]", "4: nulls: got it for a table with types"),
        ("key: tail\ncolumns: {tail: string}\non_duplicate: last", "4: on_duplicate: got last, allowed is error: the"),
    ],
)
def test_a_mistake_has_its_line(declared: str, mistake: str, tmp_path: Path) -> None:
    files = {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "lookups/plane.yaml": f"table: planes\n{declared}\n"}
    with pytest.raises(DeclarationError) as refused:
        load_project(write_project(tmp_path, files))
    assert f"lookups/plane.yaml:{mistake}" in str(refused.value)


@pytest.mark.parametrize(
    ("table", "allowed"),
    [
        ("postgres://you@db/air?table=planes", "got the scheme 'postgres', allowed are a path"),
        ("MySQL://you@db/air?table=planes", "got the scheme 'MySQL', allowed are a path"),
        ("postgresql+psycopg2://you@db/air?table=planes", "got the scheme 'postgresql+psycopg2', allowed are a path"),
        ("Postgresql://you@db/air?table=planes", "got the scheme 'Postgresql', allowed is postgresql: in lower case"),
        ("DUCKDB:fleet.duckdb?table=planes", "got the scheme 'DUCKDB', allowed is duckdb: in lower case"),
        ("postgresql:you@db/air?table=planes", "allowed is postgresql://USER@HOST:PORT/DATABASE?table=SCHEMA.NAME"),
        ("postgresql://you:secret@db/air?table=planes", "got a URL with a password"),
        ("postgres://you:secret@db/air?table=planes", "got a URL with a password"),
        ("postgresql+psycopg2://you:secret@db/air?table=planes", "got a URL with a password"),
        ("Postgresql://you:secret@db/air?table=planes", "got a URL with a password"),
        ("postgresql:you:secret@db/air?table=planes", "got a URL with a password"),
        ("jdbc:postgresql://you:secret@db/air?table=planes", "got a URL with a password"),
        ("jdbc:postgresql://db/air?user=you&password=secret", "got a URL with a password"),
        ("https://you:secret@host/planes", "got a URL with a password"),
        ("'postgresql://you:se/secret@db/air?table=planes'", "got a URL with a password"),
        ("'postgresql://you:se#secret@db/air?table=planes'", "got a URL with a password"),
        ("'postgresql://you:se?secret@db/air?table=planes'", "got a URL with a password"),
        ("'postgresql://you:se@secret@db/air?table=planes'", "got a URL with a password"),
        ("'postgresql://you:@secret@db/air?table=planes'", "got a URL with a password"),
        ("postgresql://you:@db/air?table=planes", "got a URL with a password"),
        ("postgresql://you@db/air?table=planes&password=secret", "got a URL with a password"),
        ("postgresql://you@db/air?sslpassword=secret&table=planes", "got a URL with a password"),
        ("postgresql://[you@db/air?table=planes", "got a URL that cannot be read"),
        ("postgresql://you@db/air", "allowed is postgresql://USER@HOST:PORT/DATABASE?table=SCHEMA.NAME"),
        ("duckdb:fleet.duckdb", "allowed is duckdb:PATH?table=NAME"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(
    table: str, allowed: str, tmp_path: Path
) -> None:
    lookup = f"table: {table}\nkey: tail\ncolumns: {{tail: string}}\n"
    files = {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "lookups/plane.yaml": lookup}
    with pytest.raises(DeclarationError) as refused:
        load_project(write_project(tmp_path, files))
    assert allowed in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "of", "said"),
    [
        (
            "tail",
            "id: upper(tail)",
            "1: table: got 'flights', whose `id: upper(tail)` is the same for all rows of a key: ",
        ),
        ("tail", "id: concat(tail, cast(at AS string))", ""),
        (
            "record.key",
            "key_type: string\nid: record.key",
            "1: table: got 'flights', whose `id: record.key` is the same",
        ),
        ("record.key", "key_type: string\nid: concat(record.key, record.timestamp)", ""),
        ("record.key", "key_type: string\nid: tail", ""),
    ],
)
def test_an_id_that_leaves_out_newer_rows_of_a_table_is_refused(key: str, of: str, said: str, tmp_path: Path) -> None:
    column = f"{{type: string, column: {key}}}"
    lookup = f"table: source:flights\nkey: tail\ncolumns: {{tail: {column}}}\nvalid_from: event_time\n"
    source = dedent(SOURCE) + of + "\n"
    root = write_project(tmp_path, {"hourline.yaml": "", "sources/flights.yaml": source, "lookups/plane.yaml": lookup})
    if not said:
        load_project(root)
        return
    with pytest.raises(DeclarationError) as refused:
        load_project(root)
    assert f"lookups/plane.yaml:{said}" in str(refused.value)


@pytest.mark.parametrize("table", ["postgresql://db/air?table=planes", "source:flights"])
def test_a_table_that_is_read_into_memory_has_a_bound(table: str, tmp_path: Path) -> None:
    lookup = f"table: {table}\nkey: tail\ncolumns: {{tail: string}}\nmost_rows: "
    files = {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "lookups/plane.yaml": f"{lookup}5000000\n"}
    root = write_project(tmp_path, files)
    load_project(root)
    write_project(tmp_path, {"lookups/plane.yaml": f"{lookup}5000001\n"})
    with pytest.raises(DeclarationError, match=r"plane.yaml:4: most_rows: got 5000001, allowed is at most 5000000"):
        load_project(root)


@pytest.mark.parametrize(
    "table",
    [
        "postgresql://you@db:5432/air?table=public.planes&sslmode=require",
        "postgresql://db:5432/air?table=planes",
        "postgresql:///air?host=/run/postgresql&table=planes",
        "s3://fleet/planes",
        "abfss://fleet@account.dfs.core.windows.net/planes",
        "duckdb:fleet.duckdb?table=planes",
        "data/2024-01-01T10:00:00@home",
    ],
)
def test_an_address_without_a_password_is_taken_as_it_is(table: str) -> None:
    assert Lookup.model_validate({"name": "plane", "table": table, "key": "k", "columns": {"k": "int"}}).table == table


@pytest.mark.parametrize(
    ("declared", "mistake"),
    [
        ("lookups: {plain: tail}", "4: lookups.plain: got 'plain', which is no lookup of this project — did you mean"),
        ("lookups: {plane: [tail, at]}", "4: lookups.plane: got 2 expression(s), allowed is one for each of the key"),
        ("lookups: {tail: tail}", "got the name 'tail', allowed is each name once"),
        ("lookups: {hour: tail}", "got the name 'hour', which has another meaning"),
        ("lookups: {plane: own}\nderived: {own: tail}", "4: lookups.plane: got 'own', which names 'own', allowed are"),
        (
            "lookups: {plane: tail}\nderived: {maker: plane.tail}\nid: concat(maker, at)",
            "6: id: got an id that depends on the lookup 'plane'",
        ),
    ],
)
def test_a_mistake_in_the_use_of_a_lookup_has_its_line(declared: str, mistake: str, tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "",
        "sources/flights.yaml": f"topic: flights\nfields: {{tail: string, at: timestamp}}\nevent_time: at\n{declared}\n",
        "lookups/plane.yaml": "table: planes\nkey: tail\ncolumns: {tail: string}\n",
    }
    with pytest.raises(DeclarationError) as refused:
        load_project(write_project(tmp_path, files))
    assert mistake in str(refused.value)
