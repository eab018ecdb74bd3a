"""Reports how far each partition has come, and which one holds its source: `hourline status --partitions`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hourline_core.ledger.read_offsets import Reading
from hourline_core.ledger.source_clock import PartitionClock
from hourline_core.model import Source
from hourline_core.runtime.lease import lease_holder
from hourline_core.sql.all_progress import PARTITION_CLOCKS_SQL, read_rates_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.each_source import ask_each
from serving_layer.reports.input_state import InputState
from serving_layer.reports.kafka_offsets import TopicOffsets

RATE_OVER = timedelta(minutes=10)
"""The time over which a rate is computed."""


class PartitionStatus(Described):
    """The progress of one partition of a source's topics. Times are in UTC."""

    topic: str
    """The name of the topic."""
    partition: int
    """The number of the partition."""
    offset: int | None
    """The offset to read next. Null: nothing was read of it yet."""
    lag: int | None
    """The number of its offsets in Kafka that no finished micro-batch has read. 0 when all that can be read was. Null:
    it is not known.
    """
    in_transaction: int | None
    """The number of its offsets that an open transaction holds back: the high watermark less the last stable offset.
    They cannot be read yet, and are not in the lag. Null: it is not known.
    """
    in_transaction_since: datetime | None
    """When the first of these was sent, by Kafka's timestamp. Null: there is none, or it is not known."""
    clock: datetime | None
    """Its highest event time that counts. Null: none of its events was accepted yet."""
    skew: float | None
    """The seconds by which its clock is behind that of the most advanced partition. Null: it has no clock."""
    arrived: datetime | None
    """When its last record arrived. Null: nothing was read of it yet."""
    rate: float
    """The number of offsets a second that were read of it in the last ten minutes."""
    idle: bool
    """Whether it had no record for the source's `idle` time, while the speed layer runs and has read all of it. Then it
    does not hold the clock.
    """
    holds_clock: bool
    """Whether this partition holds the source's clock: the source's clock would advance if this one did."""
    held_back: int
    """The number of its records whose event time was too far ahead to move the clock, and was not confirmed."""
    ahead: list[datetime]
    """The event times too far ahead that wait for further records to confirm them."""
    state_events: int | None
    """Of an input of a join or an upsert, the number of its archived events in hours that new events may still reach.
    These hours go by the clock of the join or upsert, and by its `within`. Late events may reach earlier ones. Null: it
    is no such input.
    """
    state_since: datetime | None
    """The oldest hour of these events. Null: there is none."""


@dataclass(frozen=True)
class TopicReading:
    """How far the topic that has a name now has been read."""

    topic_id: str
    reading: Reading


Readings = Mapping[str, Mapping[str, TopicReading]]
"""By source and topic."""


def report_partitions(
    connection: Connection,
    sources: Collection[Source],
    readings: Readings,
    offsets: Mapping[str, TopicOffsets],
    states: Mapping[str, Mapping[str, InputState]],
) -> dict[str, list[PartitionStatus]]:
    """By source, the partitions of its topics. ``readings`` say by source and topic how far it was read, ``offsets``
    where Kafka begins and ends, and ``states`` by join or upsert what it needs of each input. Sources without progress
    are left out.
    """
    clocks = ask_each(connection, PARTITION_CLOCKS_SQL)
    rates = ask_each(connection, read_rates_sql(connection.taken - RATE_OVER))
    # A speed layer that is stopped or behind knows of no idle partition.
    is_running = lease_holder(connection.project.workspace, "speed") is not None
    return {
        source.name: _partitions_of(
            source,
            connection.taken,
            clocks[source.name].to_pylist(),
            rates[source.name].to_pylist(),
            readings[source.name],
            offsets[source.name],
            states.get(source.name, {}),
            is_running,
        )
        for source in sources
        if source.name in clocks
    }


def _partitions_of(
    source: Source,
    now: datetime,
    clock_rows: list[dict[str, Any]],
    rate_rows: list[dict[str, Any]],
    readings: Mapping[str, TopicReading],
    offsets: TopicOffsets,
    states: Mapping[str, InputState],
    is_running: bool,
) -> list[PartitionStatus]:
    names = {of.topic_id: topic for topic, of in readings.items()}
    clocks = {
        (names[row["topic_id"]], row["partition"]): PartitionClock(**{**row, "ahead": tuple(row["ahead"])})
        for row in clock_rows
        if row["topic_id"] in names
    }
    rates = {
        (names[row["topic_id"]], row["partition"]): _rate(row, now) for row in rate_rows if row["topic_id"] in names
    }
    following = {
        (topic, partition): offset
        for topic, of in readings.items()
        for partition, offset in of.reading.next_offsets.items()
    }
    lags = {
        (topic, partition): max(0, ends.end - max(following.get((topic, partition), 0), ends.earliest))
        for topic, of in offsets.items()
        for partition, ends in of.items()
    }
    in_kafka = {(topic, partition): ends for topic, of in offsets.items() for partition, ends in of.items()}
    idle = {
        address
        for address, known in clocks.items()
        if known.is_idle(now, source.idle) and lags.get(address) == 0 and is_running
    }
    live = [known.clock for address, known in clocks.items() if known.clock and address not in idle]
    lowest = min(live, default=None)
    highest = max((known.clock for known in clocks.values() if known.clock), default=None)
    partitions = []
    for address in sorted({*clocks, *following, *lags}):
        known = clocks.get(address)
        clock = known.clock if known else None
        ends = in_kafka.get(address)
        state = states.get(address[0], InputState())
        partitions.append(
            PartitionStatus(
                topic=address[0],
                partition=address[1],
                offset=following.get(address),
                lag=lags.get(address),
                in_transaction=ends.held_back if ends else None,
                in_transaction_since=ends.held_back_since if ends else None,
                clock=clock,
                skew=(highest - clock).total_seconds() if highest and clock else None,
                arrived=known.arrived if known else None,
                rate=rates.get(address, 0.0),
                idle=address in idle,
                holds_clock=address not in idle and clock is not None and clock == lowest,
                held_back=known.held_back if known else 0,
                ahead=list(known.ahead) if known else [],
                state_events=state.events,
                state_since=state.since,
            )
        )
    return partitions


def _rate(read: Mapping[str, Any], now: datetime) -> float:
    """Offsets a second, since the first of these micro-batches began."""
    seconds = (now - read["first_started"]).total_seconds()
    return float(read["offsets"] / seconds) if seconds > 0 else 0.0
