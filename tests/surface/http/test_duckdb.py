"""A DuckDB on another machine, with httpfs alone, reads the results of a server."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import httpx
import pytest

from tests.support.bare_tables import BareTables
from tests.support.http_answers import VISITS
from tests.support.visits_tables import grouped, serving

READER = "reader-reader-reader"
EXTENSION = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))


@pytest.fixture(scope="module")
def guarded(tables: BareTables) -> Iterator[httpx.Client]:
    with serving(tables.project, {"HOURLINE_READER_TOKEN": READER}) as client:
        yield client


@pytest.fixture
def alone(guarded: httpx.Client) -> Iterator[duckdb.DuckDBPyConnection]:
    """With the token of a reader."""
    with duckdb.connect() as database:
        database.load_extension(str(EXTENSION))
        database.execute("SET TimeZone = 'UTC'")
        scope = str(guarded.base_url)
        database.execute(f"CREATE SECRET hourline (TYPE http, BEARER_TOKEN '{READER}', SCOPE '{scope}')")
        yield database


def test_it_reads_the_rows_of_a_metric_as_csv(alone: duckdb.DuckDBPyConnection, guarded: httpx.Client) -> None:
    url = f"{guarded.base_url}/api/v1/metrics/visits?limit=100000&format=csv"
    rows = alone.sql(f"SELECT hour, page, size, views, spent, visitors FROM read_csv('{url}')").fetchall()
    wanted = grouped(VISITS, "hour", "page", "size")
    assert {row[:3]: row[3:] for row in rows} == {
        key: (values["views"], values["spent"], values["visitors"]) for key, values in wanted.items()
    }
    assert len(rows) == len(wanted)
    often = alone.sql(f"SELECT often->0->>'value' FROM read_csv('{url}', types := {{'often': 'JSON'}})").fetchall()
    assert sorted(often) == sorted((values["often"][0]["value"],) for values in wanted.values())


def test_it_reads_whole_answers_as_json_and_notices_that_rows_lack(
    alone: duckdb.DuckDBPyConnection, guarded: httpx.Client
) -> None:
    query = (
        "SELECT unnest(rows, recursive := true) FROM read_json('{}') "
        "WHERE if(next IS NULL, true, error('the answer has more rows; raise limit'))"
    )
    url = f"{guarded.base_url}/api/v1/metrics/visits?dimension=&grain=total"
    total = alone.sql(query.format(url)).fetchone()
    assert total is not None and total[0] == len(VISITS)
    with pytest.raises(duckdb.Error, match="the answer has more rows; raise limit"):
        alone.sql(query.format(f"{guarded.base_url}/api/v1/metrics/visits?limit=2")).fetchall()


def test_without_a_token_it_reads_nothing(guarded: httpx.Client) -> None:
    with duckdb.connect() as database:
        database.load_extension(str(EXTENSION))
        with pytest.raises(duckdb.HTTPException):
            database.sql(f"FROM read_csv('{guarded.base_url}/api/v1/metrics/visits?format=csv')").fetchall()
