"""Tables to damage."""

import shutil
from pathlib import Path

import pytest

from tests.support.bare_tables import BareTables
from tests.support.damage import HOURS


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> BareTables:
    """Tables of which each has rows that answers rest on: all hours but one are final, the other is blocked, and events
    have come since.
    """
    tables = BareTables(tmp_path_factory.mktemp("healthy"), HOURS)
    tables.start()
    tables.micro_batch(6)
    tables.publish(0, 1, 2, 3)
    tables.micro_batch(6)
    tables.publish(0, 1, 2, blocked=[2])
    tables.micro_batch(6)
    return tables


@pytest.fixture
def tables(healthy: BareTables, tmp_path: Path) -> BareTables:
    shutil.copytree(healthy.project.root, tmp_path / "project")
    return BareTables(tmp_path / "project", HOURS)
