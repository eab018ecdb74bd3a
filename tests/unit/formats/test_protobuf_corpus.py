"""Each of many damaged messages of Protobuf is taken as Google's library reads it, or refused with its fault."""

import random
import re
from typing import Any

import pyarrow as pa

from hourline_core.formats.format import decoder_of
from tests.support.malformed import cut, flipped
from tests.support.protobuf import decode, format_of, message_class, schema_of, write
from tests.support.protobuf_message import FIELDS, FULL, SCHEMA, WIDE_SCHEMA, is_message
from tests.support.protobuf_reader import NoProtobufError, check_protobuf

OTHER = schema_of(
    "message M { double id = 1; string amount = 2; bytes price = 3; repeated bytes codes = 8; fixed32 at = 10; }"
)


def _corpus() -> list[bytes]:
    """The full message cut off, with each bit flipped, with bytes behind it, and messages of another schema."""
    trailing = [FULL + bytes([byte]) for byte in range(256)]
    others = [
        write(OTHER, text)
        for text in (
            "id: 1",
            'amount: "a"',
            'price: "a"',
            'codes: "a"',
            "at: 5",
            'codes: "\\200"',
            'id: 2 codes: "\\1"',
        )
    ]
    chance = random.Random(7)  # noqa: S311 (the same ones each time)
    shuffled = [bytes(chance.choice(FULL) for _ in range(chance.randrange(1, 12))) for _ in range(500)]
    return [*cut(FULL), *flipped(FULL), *trailing, *others, *shuffled]


def value_at(message: Any, path: str) -> Any:
    """The value of a member such as ``items[0].count``."""
    for step in re.findall(r"\w+", path):
        message = message[int(step)] if step.isdigit() else getattr(message, step)
    return message


def test_each_record_of_a_corpus_is_taken_as_googles_library_says_or_refused_with_its_fault() -> None:
    corpus, refused = _corpus(), 0
    _, reasons = decode(SCHEMA, FIELDS, *corpus)
    for written, reason in zip(corpus, reasons, strict=True):
        assert (reason is None) == is_message(written), (written, reason)
        refused += reason is not None
        try:
            check_protobuf(written, message_class(SCHEMA).DESCRIPTOR)
        except NoProtobufError as fault:
            where = f" in '{fault.path}'" if fault.path else ""
            said = rf"invalid Protobuf{re.escape(where)}: got .*{re.escape(fault.what)}.* at byte {fault.place}"
            assert re.fullmatch(said, reason or ""), (written, fault)
        else:
            if reason:
                got = re.fullmatch(r"(?:invalid Protobuf in|field) '(.+)': got (\S+), want .+", reason)
                assert got, reason
                assert str(value_at(message_class(WIDE_SCHEMA).FromString(written), got[1])) == got[2]
    assert refused > 1300
    assert len(corpus) - refused > 700


def test_a_record_that_is_taken_has_the_values_that_googles_library_reads() -> None:
    corpus = [value for value in _corpus() if is_message(value)]
    decoded = decoder_of(format_of(SCHEMA), FIELDS).decode(pa.array(corpus, pa.binary()))
    for value, row in zip(corpus, pa.table(decoded.columns).to_pylist(), strict=True):
        message = message_class(SCHEMA).FromString(value)
        names = ("id", "amount", "price", "ratio", "paid", "serial", "change")
        assert [row[name] for name in names] == [getattr(message, name) for name in names]
        assert row["codes"] == list(message.codes)
        assert [item["count"] for item in row["items"]] == [item.count for item in message.items]
        assert {key: item["name"] for key, item in row["parts"]} == {k: item.name for k, item in message.parts.items()}
        assert row["level"] == (message.level.value if message.HasField("level") else None)
