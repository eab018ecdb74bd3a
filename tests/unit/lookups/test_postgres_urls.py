"""The URL that libpq gets of a lookup's address, as libpq itself parses it."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from hourline_core.lookups.read_postgres import _PATIENCE, split_url


@pytest.mark.parametrize(
    ("address", "options", "table"),
    [
        (
            "postgresql://you@db:5432/air?table=planes",
            {"user": "you", "host": "db", "port": "5432", "dbname": "air"},
            "planes",
        ),
        ("postgresql:///fleet?table=planes", {"dbname": "fleet"}, "planes"),
        ("postgresql:///fleet?host=/run/pg&table=planes", {"dbname": "fleet", "host": "/run/pg"}, "planes"),
        (
            "postgresql://db/air?options=-c%20search_path%3Dx&table=My+View&passfile=/run/a+b",
            {"host": "db", "dbname": "air", "options": "-c search_path=x", "passfile": "/run/a+b"},
            "My View",
        ),
        (
            "postgresql://db/air?t%61ble=a%2Eb&connect_timeout=3",
            {"host": "db", "dbname": "air", "connect_timeout": "3"},
            "a.b",
        ),
    ],
)
def test_libpq_gets_the_options_that_were_written(address: str, options: dict[str, str], table: str) -> None:
    url, name = split_url(address)
    assert conninfo_to_dict(url) == {**_PATIENCE, **options}
    assert name == table
