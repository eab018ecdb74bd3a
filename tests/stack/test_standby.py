"""`hourline speed --standby`: waits warm, takes over however the first one ended, and nothing is lost or counted twice.
(On an embedded Kafka: test_up_and_down.py.)
"""

import signal
from pathlib import Path

import pytest

from tests.support import parcels
from tests.support.speed_process import SpeedProcess, records_arriving

pytestmark = pytest.mark.heavy


def test_a_standby_takes_over_from_one_that_was_killed_and_from_one_that_was_stopped(
    kafka: str, tmp_path: Path
) -> None:
    project = parcels.make(tmp_path, kafka, topic="standby", few=True)
    with SpeedProcess(project) as first, SpeedProcess(project, "--standby") as second, records_arriving(project):
        first.wait_until_ready()
        second.wait_for("standing by")
        with SpeedProcess(project, "--standby") as one_too_many:
            assert one_too_many.wait() == 75
            one_too_many.wait_for(f"process {second.process.pid} is already the standby")
        first.wait_for(" records")
        first.process.send_signal(signal.SIGKILL)
        second.wait_until_ready()
        second.wait_for(" records")
        with SpeedProcess(project, "--standby") as third:
            third.wait_for("standing by")
            second.process.send_signal(signal.SIGTERM)
            third.wait_until_ready()
            assert second.wait() == 0, second.lines
            third.wait_for(" records")
            third.process.send_signal(signal.SIGTERM)
            third.wait_for("stopping after the commit that runs")
            assert third.wait() == 0, third.lines
    project.drain()
    assert len(project.sent["scans"]) > 100
    assert project.check() > 60
