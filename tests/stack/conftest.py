"""What the tests on the real stack share: one Kafka, and one finished project to read from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hourline_core.runtime.broker import Broker
from tests.support import parcels
from tests.support.command_line import declared, failing  # noqa: F401 (fixtures)
from tests.support.stack_project import StackProject

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies in this folder needs the real broker and Spark."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.stack)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka that runs as long as the tests do."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def finished_project(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project with hours of every state, to be read or copied. Nothing may be sent to its topic: all copies read it."""
    return parcels.make_finished(tmp_path_factory.mktemp("finished"), kafka, topic="finished", few=True)
