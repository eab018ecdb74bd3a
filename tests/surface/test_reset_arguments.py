"""A reset that cannot be done gets one sentence."""

from pathlib import Path

import pytest

from hourline_core.runtime.lease import lease
from tests.support import parcels
from tests.support.command_line import Failing
from tests.support.project_files import write_project


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["flwo", "--yes"], "there is no source or metric 'flwo' — did you mean 'flow'?"),
        (["source:flow", "--yes"], "'flow' is a metric, not a source"),
        (["flow", "--to", "earliest", "--yes"], "--to is for sources only"),
        (["scans", "--to", "noon", "--yes"], "got --to noon, allowed are earliest, latest"),
        (["scans", "--to", "2024-05-06T20:00:00", "--yes"], "a time with its offset from UTC"),
        (["scans", "--to", "0001-01-01T00:00:00+14:00", "--yes"], "got --to 0001-01-01T00:00:00+14:00, allowed are"),
        (["scans", "--to", "0=1,0=2", "--yes"], "each partition once"),
        (["scans"], "add --yes"),
        (["flow", "--yes"], "nothing was read of source 'scans' yet"),
    ],
)
def test_a_wrong_reset_gets_one_sentence(failing: Failing, declared: Path, arguments: list[str], said: str) -> None:
    assert said in failing.sentence("reset", *arguments, folder=declared)


def test_a_name_of_both_kinds_needs_its_kind(failing: Failing, tmp_path: Path) -> None:
    files = {
        name: text.replace("TOPIC", "both").replace("RECORDS_PER_BATCH", "500") for name, text in parcels.FILES.items()
    }
    write_project(tmp_path, {**files, "metrics/scans.yaml": "source: scans\nmeasures: {scans: count}\n"})
    assert "'scans' is a source and a metric; say source:scans or metric:scans" in failing.sentence(
        "reset", "scans", "--yes", folder=tmp_path
    )
    assert "nothing was read" in failing.sentence("reset", "metric:scans", "--yes", folder=tmp_path)


def test_a_running_speed_layer_is_to_be_stopped_first(failing: Failing, declared: Path) -> None:
    with lease(declared / ".hourline", "speed"):
        assert "stop it with `hourline down`" in failing.sentence("reset", "scans", "--yes", folder=declared, status=75)
