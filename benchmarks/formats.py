"""Measures what it costs to decode a record of each format, compared with JSON and with the library of the format.

    python -m benchmarks.formats [--full]

The same orders of six fields are written in each format: a text, a time, a number, a decimal, an enum, and a text that
may be null. The product's decoder reads them in batches, as a task of Spark does, into Arrow columns. *With arrays* has
a list of texts beside these: such records are read one by one.

Subjects take turns in one process. CPU µs of a record count, after a first round that does not. The columns of each
format are compared with the orders before its time counts.

fastavro makes Python values of a record, and no columns. It is the peer that people would take.
"""

import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from benchmarks.figures import Figure
from benchmarks.running import run
from hourline_core.formats.format import decoder_of
from hourline_core.model import Source
from hourline_core.model.record_format import RecordFormat

QUICK, FULL = (5, 20_000), (15, 100_000)
"""The numbers of rounds, and of records."""
GOAL = 1.5
FIRST = datetime(2026, 3, 1, tzinfo=UTC)

FIELDS = {
    "order_id": "string",
    "at": "timestamp",
    "quantity": "int",
    "amount": "decimal(9,2)",
    "status": "string",
    "city": "string",
}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "quantity", "type": "int"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["new", "paid", "sent"]}},
        {"name": "city", "type": ["null", "string"]},
    ],
}
PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
enum Status { new = 0; paid = 1; sent = 2; }
message Order {
  string order_id = 1;
  google.protobuf.Timestamp at = 2;
  int32 quantity = 3;
  string amount = 4;
  Status status = 5;
  optional string city = 6;
}
"""
TAGS = {"name": "tags", "type": {"type": "array", "items": "string"}}
AVRO_WITH_TAGS = {**AVRO, "fields": [*AVRO["fields"], TAGS]}


def order(number: int) -> dict[str, Any]:
    """An order as Python has it."""
    return {
        "order_id": f"order-{number:08}",
        "at": FIRST + timedelta(milliseconds=977 * number),
        "quantity": number % 40,
        "amount": Decimal(number % 100_000) / 100,
        "status": ("new", "paid", "sent")[number % 3],
        "city": None if number % 10 == 0 else ("Köln", "Bonn", "Aachen")[number % 3],
        "tags": ["a", "bc"],
    }


@dataclass
class Subject:
    """A format: how an order is declared and written."""

    name: str
    format: Any
    write: Callable[[dict[str, Any]], bytes]
    has_tags: bool = False

    @property
    def fields(self) -> dict[str, str]:
        """The declared fields."""
        return FIELDS | ({"tags": "array<string>"} if self.has_tags else {})

    def prepare(self, orders: list[dict[str, Any]]) -> Callable[[], float]:
        """What decodes all ``orders`` once, and gives the CPU µs of a record. Raises AssertionError if they differ."""
        declared = {"name": "orders", "topic": "orders", "event_time": "at", "fields": self.fields}
        source = Source.model_validate(declared if self.format is None else {**declared, "format": self.format})
        decoder = decoder_of(source.format, source.fields)
        values = pa.array([self.write(one) for one in orders], pa.binary())
        decoded = decoder.decode(values)
        found = pa.table(decoded.columns).to_pylist()
        assert found == [{name: one[name] for name in self.fields} for one in orders], f"{self.name} differs"

        def measure() -> float:
            begin = time.process_time()
            decoder.decode(values)
            return (time.process_time() - begin) / len(orders) * 1e6

        return measure


def write_json(value: dict[str, Any]) -> bytes:
    """An order as a JSON object."""
    at = value["at"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({**value, "at": at, "amount": float(value["amount"])}, ensure_ascii=False).encode()


def avro_writer(schema: Any) -> Callable[[dict[str, Any]], bytes]:
    """Writes an order by ``schema``."""
    parsed = fastavro.parse_schema(schema)

    def write(value: dict[str, Any]) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, value)
        return written.getvalue()

    return write


def read_by_fastavro(orders: list[dict[str, Any]]) -> Callable[[], float]:
    """What reads all ``orders`` by fastavro once, and gives the CPU µs of a record."""
    parsed, write = fastavro.parse_schema(AVRO), avro_writer(AVRO)
    values = [write(one) for one in orders]
    read: Any = fastavro.schemaless_reader(io.BytesIO(values[1]), parsed)
    assert read["order_id"] == orders[1]["order_id"]

    def measure() -> float:
        begin = time.process_time()
        for value in values:
            fastavro.schemaless_reader(io.BytesIO(value), parsed)
        return (time.process_time() - begin) / len(orders) * 1e6

    return measure


def write_csv(value: dict[str, Any]) -> bytes:
    """An order as a row of CSV."""
    cells = {**value, "at": value["at"].isoformat().replace("+00:00", "Z"), "city": value["city"] or ""}
    return ";".join(str(cells[name]) for name in FIELDS).encode()


def protobuf_writer() -> Callable[[dict[str, Any]], bytes]:
    """Writes an order as a message of PROTOBUF, by Google's library."""
    format = RecordFormat.model_validate({"protobuf": {"schema": PROTOBUF}}).protobuf
    assert format, "it was declared"
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(format.compiled).file:
        pool.Add(file)
    order_class: Any = GetMessageClass(pool.FindMessageTypeByName("Order"))

    def write(value: dict[str, Any]) -> bytes:
        message = order_class(**{name: one for name, one in value.items() if name in FIELDS and name != "amount"})
        message.amount = str(value["amount"])
        written: bytes = message.SerializeToString()
        return written

    return write


PATTERN = ";".join(f"(?P<{name}>[^;]*)" for name in FIELDS)
JSON = Subject("JSON", None, write_json)
SUBJECTS = [
    Subject("Avro", {"avro": {"schema": json.dumps(AVRO)}}, avro_writer(AVRO)),
    Subject("Protobuf", {"protobuf": {"schema": PROTOBUF}}, protobuf_writer()),
    Subject("CSV", {"csv": {"columns": [*FIELDS], "delimiter": ";"}}, write_csv),
    Subject("text", {"text": {"pattern": PATTERN}}, write_csv),
]
WITH_ARRAYS = [
    Subject("Avro", {"avro": {"schema": json.dumps(AVRO_WITH_TAGS)}}, avro_writer(AVRO_WITH_TAGS), has_tags=True),
]
JSON_WITH_ARRAYS = Subject("JSON", None, write_json, has_tags=True)


def measure(full: bool) -> Iterator[Figure | str]:
    rounds, count = FULL if full else QUICK
    orders = [order(number) for number in range(count)]
    of_json, of_json_with_arrays = JSON.prepare(orders), JSON_WITH_ARRAYS.prepare(orders)
    prepared = [(f"a record in {one.name}, beside JSON", one.prepare(orders), of_json) for one in SUBJECTS]
    prepared += [
        (f"a record in {one.name} with arrays, beside JSON", one.prepare(orders), of_json_with_arrays)
        for one in WITH_ARRAYS
    ]
    prepared.append(("a record in Avro, beside fastavro", SUBJECTS[0].prepare(orders), read_by_fastavro(orders)))
    taken: dict[str, list[tuple[float, float]]] = {what: [] for what, _, _ in prepared}
    for number in range(rounds + 1):
        for what, ours, peer in prepared:
            pair = ours(), peer()
            if number:
                taken[what].append(pair)
    for what, pairs in taken.items():
        yield Figure(
            what=what,
            unit="CPU µs per record",
            ours=[ours for ours, _ in pairs],
            peer=[peer for _, peer in pairs],
            goal=GOAL if "JSON" in what else None,
        )


if __name__ == "__main__":
    run("formats", measure)
