"""The files of a micro-batch that are gone before its commit: it ends with one sentence, nothing of it counts, and the next
start is exact.
"""

from pathlib import Path
from unittest.mock import patch

import pytest

import serving_layer
from hourline_core.errors import TableError
from speed_layer.commit.committer import Committer, Finished
from speed_layer.intake.read_micro_batch import Read
from tests.protocol.test_quarantine import Event, Speed

FAILING = [Event(0, 1), Event(0, 3), Event(1, 6)]


@pytest.mark.parametrize("kind", ["events", "quarantine"])
def test_a_file_that_is_gone_before_its_commit_ends_the_micro_batch_and_nothing_counts(
    kind: str, tmp_path: Path
) -> None:
    speed = Speed(tmp_path)
    speed.micro_batch([Event(0, 2), Event(2, 9)])
    folder = Path(speed.project.tables) / kind / "visits"
    commit = Committer.commit

    def commit_without_file(of: Committer, read: Read) -> Finished:
        (file,) = getattr(read.part, kind)
        (folder / file.path).unlink()
        return commit(of, read)

    with patch.object(Committer, "commit", commit_without_file), pytest.raises(TableError) as raised:
        speed.micro_batch(FAILING)
    said = str(raised.value)
    assert said.startswith("the file part-"), said
    assert said.endswith(f"{kind}/visits/ was deleted before it was committed; run the command again"), said
    speed.start()
    speed.check()
    speed.micro_batch(FAILING)
    speed.check()
    with serving_layer.connect(speed.project) as connection:
        assert connection.sql("SELECT count(*) FROM events_visits").fetchall() == [(5,)]
