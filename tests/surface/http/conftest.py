"""What the tests over HTTP share: tables with hours of every state, and a client of a server on them."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.bare_tables import BareTables
from tests.support.http_answers import VISITS
from tests.support.visits_tables import serving, visit_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareTables]:
    """Hours 0 and 1 are final, 2 is revised, 3 and 4 provisional."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        tables = visit_tables(tmp_path_factory.mktemp("visits"), VISITS, monkeypatch)
        tables.start()
        tables.micro_batch(40)
        tables.publish(0, 1, 2, metrics=["totals", "visits"])
        tables.micro_batch(18)
        tables.publish(0, 1, metrics=["totals", "visits"])
        tables.micro_batch(2)
        yield tables


@pytest.fixture(scope="module")
def client(tables: BareTables) -> Iterator[httpx.Client]:
    with serving(tables.project) as client:
        yield client
