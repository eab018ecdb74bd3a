"""What several test files share: one Kafka for all tests on the real stack, and one finished project to read from."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings

from hourline_core.runtime.broker import Broker
from tests.support import leftovers, parcels
from tests.support.stack_project import StackProject

# A busy machine is no failure.
settings.register_profile("hourline", deadline=None)
# Broken on purpose (mutants.py): look longer, and do not look for the shortest story.
settings.register_profile("mutants", deadline=None, phases=[Phase.generate], print_blob=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hourline"))


def pytest_configure() -> None:
    leftovers.watch()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka that runs as long as the tests do."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def finished_project(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project with hours of every state, to be read or copied, not to be changed."""
    project = parcels.make(tmp_path_factory.mktemp("finished"), kafka, topic="finished")
    project.send("scans", parcels.scans(project.random, 400, first_hour=0, hours=5))
    project.drain()
    project.recompute()
    project.send("scans", parcels.scans(project.random, 50, first_hour=1, hours=1))
    project.drain()
    return project
