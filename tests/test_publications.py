"""Publications one after the other on real Delta tables: none takes up what another has left, or lets go of what another has covered."""

from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from bare_tables import BareTables

import serving_layer
from batch_layer.publish import Publication
from speed_layer.upkeep import keep_up


class CrashError(Exception):
    """The process dies here."""


def test_what_was_left_unpublished_in_final_is_never_published(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 0, 1, 0, 1])
    tables.start()
    tables.micro_batch(2)
    tables.publish(0, 1)
    tables.micro_batch(2)
    with patch.object(Publication, "_commit_coverage", side_effect=CrashError), suppress(CrashError):
        tables.publish(0)
    tables.check()
    with serving_layer.connect(tables.project) as connection:
        assert len(connection.sql("FROM drift").fetchall()) == 2, "one of each metric, by the first publication"
    tables.publish(1)  # on top of it
    tables.check()
    with serving_layer.connect(tables.project) as connection:
        assert len(connection.sql("FROM drift").fetchall()) == 4
    tables.micro_batch(2)
    tables.check()


def test_a_publication_of_some_hours_and_metrics_keeps_the_others_covered(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1, 2, 0, 1, 2, 1])
    tables.start()
    for size, published, metrics in ((3, (0, 1, 2), ("totals", "odd")), (2, (1,), ("totals",)), (2, (1, 2), ("odd",))):
        tables.micro_batch(size)
        tables.publish(*published, metrics=metrics)
        keep_up(tables.project, tables.ledger)  # whose pruning makes an hour that is no longer covered a hole
        tables.check()
