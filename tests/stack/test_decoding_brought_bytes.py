"""Records whose bytes a reset has brought are decoded anew beside their archived events, as plain Python decodes them.
Spark decodes them, and no Kafka is needed.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from batch_layer.decoding.changed_hours import read_changed_hours
from batch_layer.decoding.decode_anew import decode_anew
from hourline_core.ledger.layout import FROM_HOUR, FROM_SEQUENCE
from hourline_core.model import Metric, Project, Settings
from hourline_core.runtime.spark import spark_session, stop_spark
from hourline_core.sql.database import open_database
from tests.support.decoded_archive import METRIC, Archive, Sent, hour

pytestmark = pytest.mark.heavy

FIRST = [Sent(n % 4, (n + 1) % 4, (n, "x", f"{n}", None)[n % 4]) for n in range(12)]
"""Without their bytes, by a declaration that takes numbers and null."""
SECOND = [Sent(n % 3, n % 4, (n, "y")[n % 2]) for n in range(6)]
"""With their bytes, by one that takes texts and null."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("brought")
    session = spark_session(Project(folder, Settings.model_validate({"spark": {"master": "local[2]"}}), {}, {}), "test")
    yield session
    stop_spark(session)


def lacking(archive: Archive, up_to: int) -> set[datetime]:
    """The hours that lack bytes for a metric over the changed field."""
    metric = Metric.model_validate({"name": "sums", **_yaml_of(METRIC), "measures": {"x": "sum(x)"}})
    with open_database(archive.project) as (database, _):
        changed = read_changed_hours(database, archive.project, archive.source, up_to)
    assert changed
    return {hour(number) for number in range(5) if changed.lack_bytes(archive.source, metric, hour(number))}


def _yaml_of(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines() if line.startswith("source"))


def test_brought_bytes_are_decoded_beside_the_archived_events(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.declare("not_kept")
    archive.micro_batch(1, FIRST)
    archive.declare("texts")
    archive.micro_batch(2, SECOND)
    archive.declare("sent")
    arrived = {record.made_by("not_kept") for record in FIRST} - {None}
    decode_anew(lambda: spark, archive.project, archive.source, 2)
    assert lacking(archive, 2) == arrived
    assert archive.read_again().brought_bytes == len([record for record in FIRST if record.made_by("not_kept")])
    read = archive.tables.progress.sequence
    # What is complete up to a sequence stays as it is.
    before = archive.decoded()
    decode_anew(lambda: spark, archive.project, archive.source, read)
    wanted: Counter[tuple[object, ...]] = Counter()
    for offset, (then, sequence, record) in enumerate(archive.sent):
        was, now = record.made_by(then), record.made_by("sent")
        if then == "not_kept" and was is not None:
            wanted[read, sequence, offset, was, now, record.x if now else None] += 1
    rows = archive.decoded()
    assert [row for row in rows if row[FROM_SEQUENCE] is None] == before
    assert wanted == Counter(
        (row["sequence"], row[FROM_SEQUENCE], row["offset"], row[FROM_HOUR], row["hour"], row["x"])
        for row in rows
        if row[FROM_SEQUENCE] is not None
    )
    assert lacking(archive, read - 1) == arrived, "up to before the reset"
    assert lacking(archive, read) == set()
