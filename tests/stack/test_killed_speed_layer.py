"""The speed layer killed with -9: at any moment, and exactly between the commits of one micro-batch. Nothing is lost,
nothing counts twice.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import parcels
from tests.support.speed_process import SpeedProcess, records_arriving, wait_until
from tests.support.stack_project import StackProject, leave_rows

pytestmark = pytest.mark.heavy


@pytest.mark.long  # test_standby.py kills one in mid-stream
def test_a_speed_layer_killed_in_mid_stream_goes_on_where_it_stopped(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path, kafka, topic="killed", few=True)
    with records_arriving(project), SpeedProcess(project) as speed:
        speed.wait_until_ready()
        speed.wait_for(" records")
        # Between the archive's commit and the last one. (All others: test_failpoints.py.)
        wait_until(committed(project, "events/scans"), "nothing was committed", every_seconds=0.002)
        speed.kill()
    project.drain()
    assert len(project.sent["scans"]) > 30
    assert project.check() > 60


@pytest.mark.long  # tests/protocol/test_failpoints.py kills after the commit of each table
@pytest.mark.parametrize(
    "left_behind",
    [
        ("events/scans", "provisional/fragile"),
        ("events/scans",),
        ("provisional/flow", "provisional/fragile"),
    ],
    ids="-".join,
)
def test_what_an_unfinished_micro_batch_left_never_counts(
    finished_project: StackProject, tmp_path: Path, left_behind: tuple[str, ...]
) -> None:
    project = finished_project.copy(tmp_path)
    last = project.last_sequence("scans")
    for table in left_behind:
        (folder,) = Path(project.project.tables).glob(table if table.startswith("events") else f"{table}/*")
        leave_rows(folder, sequence=last + 1)
    assert project.check_answers() > 100  # readers do not see it before
    project.drain()
    assert project.check() > 100
    assert project.last_sequence("scans") == last, "there was nothing to read"
    project.recompute()
    assert project.check() > 100


def test_a_sequence_is_never_used_again(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path, kafka, topic="sequences", few=True)
    project.send("scans", parcels.scans(project.random, 50, first_hour=2, hours=1))
    (first,) = project.drain()
    leave_rows(Path(project.project.tables) / "events/scans", sequence=first.sequence + 7)
    project.send("scans", parcels.scans(project.random, 50, first_hour=2, hours=1))
    (second,) = project.drain()
    assert second.sequence == first.sequence + 8
    assert project.check() > 20


def committed(project: StackProject, table: str) -> Callable[[], bool]:
    """Whether ``table`` has got another commit since now."""

    def commits() -> int:
        return sum(1 for _ in Path(project.project.tables).glob(f"{table}/_delta_log/*.json"))

    before = commits()
    return lambda: commits() > before
