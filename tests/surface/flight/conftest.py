"""What the tests of Arrow Flight SQL share: tables with hours of every state, and a server on them."""

from collections.abc import Iterator

import pytest

from serving_layer.http.server import Server
from tests.support.bare_tables import BareTables
from tests.support.flight_clients import flight_server
from tests.support.http_answers import VISITS
from tests.support.visits_tables import visit_tables


@pytest.fixture(scope="package")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareTables]:
    """Hours 0 and 1 are final, 2 is revised, 3 and 4 provisional. Two visits come later."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        tables = visit_tables(tmp_path_factory.mktemp("visits"), VISITS, monkeypatch)
        tables.start()
        tables.micro_batch(40)
        tables.publish(0, 1, 2, metrics=["totals", "visits"])
        tables.micro_batch(18)
        yield tables


@pytest.fixture(scope="package")
def server(tables: BareTables) -> Iterator[Server]:
    with flight_server(tables.project) as server:
        yield server
