"""Following progress row by row says what reading all of it says."""

from dataclasses import replace
from pathlib import Path

from hourline_core.ledger.counted_offsets import CountedOffsets, follow
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import OffsetsRead, Position, ProgressRow
from tests.support.visits import Visit, Visits


class Followed:
    """Progress of a source, followed after each row."""

    def __init__(self, folder: Path) -> None:
        self.site = Visits(folder)
        self.site.start()
        self.site.micro_batch(Visit(0, "home", 5), Visit(0, "home", 6))
        self.progress: Progress = self.site.source_tables.progress
        (self.row,) = self.progress.rows(0, 1)
        self.counted = follow(self.progress, None)

    def add(self, *offsets: OffsetsRead, topic_id: str = "topic-id", cluster: str | None = None) -> None:
        self.site.sequence += 1
        row = replace(self.row, sequence=self.site.sequence, topic_id=topic_id, offsets=offsets, cluster=cluster)
        self.progress.finish([row], {})
        self.look()

    def reset(self, offset: int) -> None:
        self.site.sequence += 1
        topic, position = ("topic-id", "visits"), (Position(0, self.end(), offset),)
        moment = self.site.clock
        row = ProgressRow.of_source_reset(self.row, self.site.sequence, topic, position, (), moment, None, ())
        self.progress.reset([row], {}, of_metric=False)
        self.look()

    def look(self) -> None:
        self.counted = follow(self.progress, self.counted)
        whole = follow(self.progress, None)
        for topic_id in ("topic-id", "another", "never"):
            for partition in range(3):
                assert counted(self.counted, topic_id, partition) == counted(whole, topic_id, partition)
        assert replace(self.counted, readings={}) == replace(whole, readings={})

    def end(self) -> int:
        return max(counted(self.counted, "topic-id", 0)) + 1


def counted(offsets: CountedOffsets, topic_id: str, partition: int) -> list[int]:
    return [offset for offset in range(60) if offsets.counts(topic_id, partition, offset)]


def test_each_row_counts_the_offsets_up_to_its_last(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    assert counted(followed.counted, "topic-id", 0) == [0, 1]
    followed.add(OffsetsRead(0, 2, 9), OffsetsRead(2, 5, 6), cluster="first")
    assert followed.counted.cluster == "first"
    followed.add(OffsetsRead(1, 0, -1))  # nothing was there
    followed.add(OffsetsRead(0, 10, 10))
    assert [counted(followed.counted, "topic-id", partition) for partition in range(3)] == [
        [*range(11)],
        [],
        [*range(7)],
    ]
    before = followed.counted
    followed.look()
    assert followed.counted is before


def test_a_recreated_topic_is_counted_anew_and_a_file_is_no_topic(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed.add(OffsetsRead(0, 0, 3), topic_id="another")
    assert followed.counted.topic_ids == {"visits": "another"}
    followed.add(OffsetsRead(0, 0, 50), topic_id="file:a")
    assert followed.counted.topic_ids == {"visits": "another"}
    assert counted(followed.counted, "another", 0) == [*range(4)]


def test_what_was_counted_before_a_reset_and_what_it_skips_counts(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed.add(OffsetsRead(0, 2, 9))
    followed.reset(0)
    assert counted(followed.counted, "topic-id", 0) == [*range(10)]
    followed.add(OffsetsRead(0, 0, 4))
    followed.reset(20)
    followed.add(OffsetsRead(0, 20, 22))
    assert counted(followed.counted, "topic-id", 0) == [*range(23)]


def test_other_tables_in_the_same_place_are_read_anew(tmp_path: Path) -> None:
    one, other = Followed(tmp_path / "one"), Followed(tmp_path / "other")
    one.add(OffsetsRead(0, 2, 9))
    assert counted(follow(other.progress, one.counted), "topic-id", 0) == [0, 1]
