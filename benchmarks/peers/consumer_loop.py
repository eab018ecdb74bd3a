"""The peer of the freshness benchmark: the smallest program that archives events and counts them by hour.

    python -m benchmarks.peers.consumer_loop BOOTSTRAP TOPIC FOLDER COMMIT_SECONDS

It is one process with confluent-kafka, Arrow and delta-rs. It neither validates records nor survives a crash: events
and tiles are two commits, and it begins at the topic's first record.
"""

import io
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
from pyarrow import json

from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.storage.compaction import SMALL_BYTES
from hourline_core.storage.version_retention import STREAMED
from speed_layer.commit.maintenance import MERGED, MICRO_BATCHES

ORDERS = pa.schema({"shop": pa.string(), "customer": pa.int64(), "amount": pa.int64(), "at": pa.int64()})
TILES = pa.schema(
    {
        "hour": TIMESTAMP,
        "shop": pa.string(),
        "orders": pa.int64(),
        "takings": pa.int64(),
        "commit": pa.int64(),
        "finished": TIMESTAMP,
    }
)


def main(bootstrap: str, topic: str, folder: Path, commit_seconds: float) -> None:
    options = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    consumer = Consumer(options)
    consumer.assign([TopicPartition(topic, 0, 0)])
    events = DeltaTable.create(str(folder / "events"), ORDERS, configuration=STREAMED)
    tiles = DeltaTable.create(str(folder / "tiles"), TILES, configuration=STREAMED)
    pool = ThreadPoolExecutor(2)
    due = time.monotonic()
    for number in count(1):
        now = time.monotonic()
        due = max(due + commit_seconds, now)
        messages = consumer.consume(100_000, due - now)
        if messages:
            rows = json.read_json(
                io.BytesIO(b"\n".join(message.value() or b"" for message in messages)),
                parse_options=json.ParseOptions(ORDERS),
            )
            committed = [pool.submit(append, events, rows), pool.submit(append, tiles, tiles_of(rows, number))]
            for one in committed:
                one.result()
        if number % MERGED == 0:
            for table in (events, tiles):
                table.optimize.compact(target_size=None if number % MICRO_BATCHES == 0 else SMALL_BYTES)


def append(table: DeltaTable, rows: pa.Table) -> None:
    """Commit like Hourline, without a search for expired log files."""
    write_deltalake(
        table, rows, mode="append", post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False)
    )


def tiles_of(rows: pa.Table, commit: int) -> pa.Table:
    """Orders and takings by hour and shop, with the time just before their commit."""
    hours = pc.floor_temporal(rows["at"].cast(pa.timestamp("ms", "UTC")), unit="hour").cast(TIMESTAMP)
    sums = (
        rows.append_column("hour", hours).group_by(["hour", "shop"]).aggregate([("amount", "count"), ("amount", "sum")])
    )
    named = sums.rename_columns({"amount_count": "orders", "amount_sum": "takings"})
    named = named.append_column("commit", pa.repeat(commit, len(named))).append_column(
        "finished", pa.repeat(datetime.now(UTC), len(named))
    )
    return named.select(TILES.names).cast(TILES)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]))
