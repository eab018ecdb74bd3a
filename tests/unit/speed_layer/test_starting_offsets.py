"""Where a start begins: right after what was read, and nowhere if anything would be missing."""

import pytest

from hourline_core.errors import LostRecordsError, SourceError
from hourline_core.ledger.read_offsets import Reading
from speed_layer.kafka.read_topics import starting_offsets

READ = Reading({0: 100, 1: 50}, {0: [(0, 100)], 1: [(0, 50)]}, {})


def test_a_start_goes_on_after_what_was_read_and_begins_a_new_partition_at_its_earliest_record() -> None:
    assert starting_offsets("web", "orders", {0: (100, 120), 1: (7, 50), 2: (9, 30)}, READ) == {0: 100, 1: 50, 2: 9}


def test_a_start_does_not_pass_what_kafka_has_deleted_since_it_was_looked_for() -> None:
    with pytest.raises(LostRecordsError, match="partition 0: Kafka has deleted offsets 100 to 119 before"):
        starting_offsets("web", "orders", {0: (120, 130), 1: (0, 50)}, READ)


def test_a_start_does_not_go_on_where_kafka_holds_less_than_was_read() -> None:
    with pytest.raises(
        SourceError, match=r"partition 1: read up to offset 49, but Kafka's last one is 39.*`hourline reset web`"
    ):
        starting_offsets("web", "orders", {0: (0, 130), 1: (0, 40)}, READ)
