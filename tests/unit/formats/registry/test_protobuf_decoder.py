"""Records in Protobuf are decoded by the schema and the message that they name, as confluent-kafka's serializer does."""

import base64
import gc
import pickle
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer, prefix_schema_id_serializer
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from hourline_core.errors import RegistryAwayError, SetupError
from hourline_core.formats.format import decoder_of
from hourline_core.formats.protobuf import writers
from hourline_core.formats.registry import decoder as registry_decoder
from hourline_core.formats.registry.decoder import RegistryDecoder
from hourline_core.model import Source
from hourline_core.model.protobuf_schema import (
    ProtobufCompilerError,
    ProtobufSchemaError,
    compile_protobuf,
    descriptor_of,
)
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    OUTCOME,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    VALUE,
)
from hourline_core.validation.validator import Validator
from tests.support.protobuf import message_class, schema_of, write
from tests.support.registry_protobuf import Serialize, decoder, serialize, serialize_as_registered, serialize_message
from tests.support.registry_records import ORDER, Wire, decode, forget_memory, prefixed, running_registry
from tests.support.validated_sources import NOW, as_table

PLACES = schema_of(
    "message A { message In { int32 k = 1; message M { int32 n = 1; } } message B { } message M { int32 n = 1; } int32 a = 1; } "
    "message M { int32 n = 1; message In { int32 k = 1; } } message Other { }"
)
OF_ONE = "schema id 1 (subject 'orders-value')"


@pytest.mark.parametrize(
    ("as_serialized", "message"),
    # Of a schema that is registered already, the serializer does not find inner messages.
    [
        *((serialize, f"t.{name}") for name in ("A", "A.In", "A.In.M", "A.M", "M", "M.In")),
        (serialize_as_registered, "t.M"),
    ],
)
@pytest.mark.parametrize("id_serializer", [prefix_schema_id_serializer, header_schema_id_serializer])
def test_the_message_is_found_wherever_it_is_in_the_schema(
    tmp_path: Path, as_serialized: Serialize, message: str, id_serializer: Any
) -> None:
    member = {"t.A": "a", "t.A.In": "k", "t.M.In": "k"}.get(message, "n")
    with running_registry(tmp_path) as (registry, access):
        written = as_serialized(registry, PLACES, f"{member}: 7", message, schema_id_serializer=id_serializer)
        of_other = as_serialized(registry, PLACES, "", "t.Other", schema_id_serializer=id_serializer)
        assert (written[1] is None) == (id_serializer is prefix_schema_id_serializer)
        read = decoder(access, PLACES, message=message)
        of = OF_ONE if written[1] is None else f"schema id {registry.guid(1)}"
        want = f"want message {message.removeprefix('t.')}"
        assert decode(read, written, of_other) == [{member: 7}, f"{of}: got message t.Other, {want}"]


def test_a_message_of_defaults_alone_is_a_record_behind_its_id_and_beside_its_header(tmp_path: Path) -> None:
    schema = schema_of("message M { int32 n = 1; }")
    source = Source.model_validate(
        {
            "name": "s",
            "topic": "t",
            "event_time": "record.timestamp",
            "format": {"protobuf": {"schema": schema, "registry": True}},
        }
    )
    with running_registry(tmp_path) as (registry, access):
        wires = [
            serialize(registry, schema, ""),
            serialize(registry, schema, "", schema_id_serializer=header_schema_id_serializer),
            (b"", None),
        ]
        assert wires[1][0] == b""
        rows = [
            {
                VALUE: value,
                HEADERS: None if header is None else [("__value_schema_id", header)],
                ARRIVED: NOW,
                RECORD_TIMESTAMP: NOW,
                RECORD_TIMESTAMP_TYPE: "create",
            }
            for value, header in (*wires, (None, wires[1][1]))
        ]
        found = Validator(source.bind_registry(access)).validate(as_table(rows)).to_pylist()
    assert [(row[OUTCOME], row["n"]) for row in found] == [
        ("accepted", 0),
        ("accepted", 0),
        ("rejected", None),
        ("tombstone", None),
    ]
    assert found[2][REASON] == (
        "no schema id: got 0 bytes, want 0x00 and 4 bytes of an id, or the header __value_schema_id"
    )


@pytest.mark.parametrize(
    ("behind_id", "reason"),
    [
        (b"", "schema id 1: got the end of the bytes within the message's indexes"),
        (b"\x04\x02", "schema id 1: got the end of the bytes within the message's indexes"),
        (b"\x80\x80", "schema id 1: got the end of the bytes within the message's indexes"),
        (b"\x01", "schema id 1: got -1 indexes of a message, want 0 to 100"),
        (b"\xca\x01" + bytes(101), "schema id 1: got 101 indexes of a message, want 0 to 100"),
        (b"\x02\x03", "schema id 1: got -2 as the index of a message"),
        (b"\x02\xff\xff\xff\xff\x0f", "schema id 1: got an index of more than 28 bits of a message"),
        (b"\x02\x06", f"{OF_ONE}: got message 3, which it does not have"),
        (b"\x04\x00\x06", f"{OF_ONE}: got message 0, 3, which it does not have"),
        (b"\x02\x00", f"{OF_ONE}: got message t.A, want message M"),
        (b"\x00", f"{OF_ONE}: got message t.A, want message M"),
        (b"\x02\x02\x08", f"{OF_ONE}: invalid Protobuf in 'n': got the end of the bytes within a varint at byte 1"),
    ],
)
@pytest.mark.parametrize("in_header", [False, True])
def test_what_names_no_message_is_refused(tmp_path: Path, behind_id: bytes, reason: str, in_header: bool) -> None:
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", PLACES, kind="PROTOBUF")
        good = prefixed(known, b"\x02\x02\x08\x05")
        named = known.to_bytes(4, "big") + behind_id
        wire: Wire = (b"\0" + named, None)
        if in_header:
            value, index = (behind_id[-1:], named[:-1]) if "invalid" in reason else (b"", named)
            wire = value, b"\0" + index
        said = reason
        if in_header and not behind_id:
            said = (
                "no schema id in the header __value_schema_id: got 5 bytes, the first 0x00, want 0x01 and 16 bytes of a "
                "GUID, or 0x00 and 4 bytes of an id, then indexes of a message"
            )
        assert decode(decoder(access, PLACES), wire, good, wire) == [said, {"n": 5}, said]


def test_bytes_behind_the_indexes_in_a_header_are_refused(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        value, header = serialize(registry, PLACES, "n: 5", schema_id_serializer=header_schema_id_serializer)
        assert header is not None
        (got,) = decode(decoder(access, PLACES), (value, header + b"\0"))
        assert got == f"schema id {registry.guid(1)}: got 1 bytes behind the message's indexes"


def test_a_place_is_refused_that_means_two_messages_since_producers_count_maps_differently(tmp_path: Path) -> None:
    schema = schema_of("message M { map<int32, int32> a = 1; message N { int32 n = 1; } message P { int32 n = 1; } }")
    # As Java's serializer counts, by the text.
    with running_registry(tmp_path) as (registry, access):
        last = serialize(registry, schema, "n: 5", "t.M.P")
        assert last[0][5:8] == b"\x04\x00\x04", "Python's serializer counts the map"
        first_of_java, last_of_java = (prefixed(1, b"\x04\x00" + place + b"\x08\x05") for place in (b"\x00", b"\x02"))
        for name, expected in (("N", [{"n": 5}, None]), ("P", [None, {"n": 5}])):
            got = decode(decoder(access, schema, message=f"t.M.{name}"), first_of_java, last, last_of_java)
            want = f"want message M.{name}"
            assert got[:2] == [
                row or f"{OF_ONE}: got message t.M.{other}, {want}" for row, other in zip(expected, "NP", strict=True)
            ]
            assert got[2] == (
                f"{OF_ONE}: got message 0, 1, which is t.M.P or t.M.N: some producers count the maps of a message, too"
            )


MONEY = 'syntax = "proto3"; package money; import "money/currency.proto"; message Price { Currency currency = 1; }'
CURRENCY = 'syntax = "proto3"; package money; enum Currency { EUR = 0; CHF = 1; }'
SHOP = """syntax = "proto3"; package t;
import "money/price.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M { money.Price price = 1; google.protobuf.Timestamp at = 2; google.protobuf.StringValue note = 3; }"""


@pytest.mark.parametrize("in_base64", [False, True])
def test_a_schema_is_read_with_those_that_it_imports_and_that_google_brings(tmp_path: Path, in_base64: bool) -> None:
    """Some registries tell a schema as it was registered: by Python's serializer, that is a descriptor in base64."""
    files = (("shop.proto", SHOP), ("money/price.proto", MONEY), ("money/currency.proto", CURRENCY))
    reader = schema_of(
        "message Price { string currency = 1; } message M { Price cost = 1; google.protobuf.Timestamp at = 2; "
        "google.protobuf.StringValue note = 3; }",
        "google/protobuf/timestamp.proto",
        "google/protobuf/wrappers.proto",
    ).replace("string currency", "int32 currency")

    def registered(place: int) -> str:
        text = files[place][1]
        if not in_base64:
            return text
        described = FileDescriptorProto()
        descriptor.file.pool.FindFileByName(files[place][0]).CopyToProto(described)
        return base64.b64encode(described.SerializeToString()).decode()

    descriptor = descriptor_of(compile_protobuf(files), "t.M")
    with running_registry(tmp_path) as (registry, access):
        registry.register("currency", registered(2), kind="PROTOBUF")
        of_currency = [{"name": "money/currency.proto", "subject": "currency", "version": 1}]
        registry.register("price", registered(1), of_currency, kind="PROTOBUF")
        of_price = [{"name": "money/price.proto", "subject": "price", "version": 1}]
        known = registry.register("orders-value", registered(0), of_price, kind="PROTOBUF")
        message = GetMessageClass(descriptor)(price={"currency": 1}, at={"seconds": 60}, note={"value": "x"})
        wire = prefixed(known, b"\0" + message.SerializeToString())
        (got,) = decode(decoder(access, reader), wire)
        assert (got["cost"], got["at"].timestamp(), got["note"]) == ({"currency": 1}, 60, "x")
    forget_memory()
    assert decode(decoder(access, reader), wire) == [got], "while the registry is away, in another process"
    with pytest.raises(RegistryAwayError):
        decode(decoder(access, reader), prefixed(known + 1, b"\0"))


def test_what_confluents_serializer_registers_with_references_is_read(tmp_path: Path) -> None:
    files = (("shop.proto", SHOP), ("money/price.proto", MONEY), ("money/currency.proto", CURRENCY))
    kind = GetMessageClass(descriptor_of(compile_protobuf(files), "t.M"))
    reader = schema_of("message Price { int32 currency = 1; } message M { Price cost = 1; }")
    with running_registry(tmp_path) as (registry, access):
        wire = serialize_message(registry, kind(price={"currency": 1}))
        assert decode(decoder(access, reader), wire) == [{"cost": {"currency": 1}}]


def test_a_file_that_registries_know_by_themselves_is_that_of_the_declaration(tmp_path: Path) -> None:
    day = 'syntax = "proto3"; package google.type; message Date { int32 year = 1; }'
    schema = schema_of("message M { google.type.Date day = 1; }", "google/type/date.proto")
    files = (("", schema), ("google/type/date.proto", day))
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", schema, kind="PROTOBUF")
        wire = prefixed(known, b"\0\x0a\x03\x08\xea\x0f")
        source = {
            "name": "s",
            "topic": "t",
            "event_time": "at",
            "format": {"protobuf": {"schema": files, "registry": True}},
        }
        declared = Source.model_validate(source).bind_registry(access)
        reading = decoder_of(declared.format, declared.fields)
        assert isinstance(reading, RegistryDecoder)
        assert decode(reading, wire) == [{"day": {"year": 2026}}]
        (got,) = decode(decoder(access, schema_of("message M { int32 n = 1; }")), wire)
        assert got.startswith(f"{OF_ONE}: it is not valid: got no schema of Protobuf: ")
        assert "google/type/date.proto" in got


@pytest.mark.parametrize(
    ("schema", "kind", "references", "reason"),
    [
        ('syntax = "proto3";\nmessage M {', "PROTOBUF", {}, "it is not valid: got no schema of Protobuf: line 2 of it: "),
        (
            'syntax = "proto3"; import "a.proto"; message M { A a = 1; }',
            "PROTOBUF",
            {"a.proto": 'syntax = "proto3";\n message { }'},
            "it is not valid: got no schema of Protobuf: a.proto:2: ",
        ),
        ('syntax = "proto3";', "PROTOBUF", {}, "got message 0, which it does not have"),
        (ORDER, "", {}, "got a schema of AVRO, want one of PROTOBUF"),
        (schema_of("message M { string n = 1; }"), "PROTOBUF", {}, "field 'n': got the schema's type string, want int"),
        *(
            (schema_of("message M { }"), "PROTOBUF", dict.fromkeys(names, ""), "got a reference '")
            for names in (
                ["../a.proto"], ["/a.proto"], ["a/../../b"], ["a\x00"], ["a", "a/b"], ["a" * 256], ["ü" * 128], ["the declaration.proto"]
            )
        ),
        ('syntax = "proto3"; // \ud800', "PROTOBUF", {}, "it is not valid: got half a character of UTF-16"),
        (
            'syntax = "proto3"; import "Traceback (most recent call last)"; message M { }',
            "PROTOBUF",
            {},
            "it is not valid: got no schema of Protobuf: line 1 of it: ",
        ),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_refuses_each_of_its_records(
    tmp_path: Path, schema: Any, kind: str, references: dict[str, str], reason: str
) -> None:
    declared = schema_of("message M { int32 n = 1; }")
    with running_registry(tmp_path) as (registry, access):
        good = registry.register("orders-value", declared, kind="PROTOBUF")
        for place, text in enumerate(references.values()):
            registry.register(f"r{place}", text, kind="PROTOBUF")
        named = [{"name": name, "subject": f"r{place}", "version": 1} for place, name in enumerate(references)]
        bad = registry.register("orders-value", schema, named, kind=kind)
        first, second, third = decode(
            decoder(access, declared), prefixed(bad, b"\0\x0a\0"), prefixed(good, b"\0\x08\x05"), prefixed(bad, b"\0")
        )
        assert first.startswith(f"schema id {bad} (subject 'orders-value'): {reason}")
        assert (second, third) == ({"n": 5}, first)


def test_a_schema_is_refused_whose_messages_are_too_deep_within_each_other(tmp_path: Path) -> None:
    parts = "".join(f"message P{place} {{ P{place + 1} p = 1; }} " for place in range(3000))
    deep, read = (
        schema_of(f"message M {{ int32 n = 1; {more} }} {rest}")
        for more, rest in (("P0 p = 2;", f"{parts} message P3000 {{ }}"), ("", ""))
    )
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", deep, kind="PROTOBUF")
        assert decode(decoder(access, read), prefixed(known, b"\0\x08\x05")) == [
            f"{OF_ONE}: it has too many messages that are parts of each other"
        ]


def test_a_schema_is_asked_for_and_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_counted(files: Any, folder: str) -> bytes:
        compiled.append(files[0][1])
        return compile_protobuf(files, folder)

    monkeypatch.setattr(writers, "compile_protobuf", compile_counted)
    monkeypatch.setattr(registry_decoder, "_MOST_READINGS", 3)
    with running_registry(tmp_path) as (registry, access):
        written = serialize_as_registered(registry, PLACES, "n: 5")
        registry.asked.clear()
        reading = pickle.loads(pickle.dumps(decoder(access, PLACES)))  # noqa: S301 (of this test)
        assert decode(reading, written, written) + decode(reading, written) == [{"n": 5}] * 3
        assert registry.asked == ["GET /schemas/ids/1", "GET /schemas/ids/1/versions"]
        assert compiled == [PLACES]
        for index in range(2, 9):
            decode(reading, prefixed(1, bytes([2, 2 * index])))
        assert len(reading._readings) <= 3, "what malformed records name is not kept for ever"


def test_a_schema_that_does_not_compile_is_compiled_once_for_all_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def compile_counted(files: Any, folder: str) -> bytes:
        compiled.append(files[0][1])
        return compile_protobuf(files, folder)

    monkeypatch.setattr(writers, "compile_protobuf", compile_counted)
    monkeypatch.setattr(writers, "_MOST_FAULTS", 2)
    with running_registry(tmp_path) as (registry, access):
        first, second, third = (f'syntax = "proto3"; message {name}' for name in "ABC")
        for text in (first, second, third):
            registry.register("orders-value", text, kind="PROTOBUF")
        reading = decoder(access, PLACES)
        for known in (1, 1, 2, 1, 3, 1):
            reasons = decode(reading, *(prefixed(known, bytes([2, 2 * index])) for index in range(3)))
            assert len(set(reasons)) == 1
            assert "it is not valid: got no schema of Protobuf" in reasons[0]
            reading._readings.clear()
        assert compiled == [first, second, third, first], "not all are remembered"


@pytest.mark.parametrize("code", [-9, 1])
def test_no_record_is_refused_because_the_compiler_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Ended:
        returncode, stderr = code, "" if code < 0 else "Traceback (most recent call last):\nMemoryError: none left"

    declared, other = (schema_of(f"message M {{ int32 n = 1; int32 k{code % 7} = {k}; }}") for k in (2, 3))
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", other, kind="PROTOBUF")
        reading = decoder(access, declared)
        with monkeypatch.context() as broken:
            broken.setattr("hourline_core.model.protobuf_schema.subprocess.run", lambda *_, **__: Ended)
            with pytest.raises(SetupError, match=f"^the compiler of Protobuf has ended by {code}: "):
                decode(reading, prefixed(known, b"\0\x08\x05"))
        assert decode(reading, prefixed(known, b"\0\x08\x05")) == [{"n": 5, f"k{code % 7}": 0}]
    assert issubclass(ProtobufCompilerError, ProtobufSchemaError)


def test_indexes_are_written_as_confluent_does() -> None:
    for indexes, written in (([0], b"\0"), ([1], b"\x02\x02"), ([0, 300], b"\x04\x00\xd8\x04")):
        assert SchemaId("PROTOBUF", 7, None, indexes).id_to_bytes() == b"\0\0\0\0\x07" + written
    assert write(PLACES, "n: 5", "t.M") == message_class(PLACES, "t.M")(n=5).SerializeToString()


@pytest.mark.parametrize(
    ("schema", "message", "reason"),
    [
        (
            'syntax = "proto3"; package google.protobuf; message Value { int32 n = 1; }',
            "Value",
            "it declares google.protobuf.Value otherwise than Google does",
        ),
        (
            'syntax = "proto3"; package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; }',
            "Timestamp",
            "got message google.protobuf.Timestamp, which Google gives a meaning of its own",
        ),
        (
            'syntax = "proto3"; package google.protobuf; message M { Timestamp at = 2; } message Timestamp { int32 n = 1; }',
            "M",
            "it declares google.protobuf.Timestamp otherwise than Google does",
        ),
    ],
)
def test_a_schema_with_names_of_google_refuses_its_records_alone(
    tmp_path: Path, schema: str, message: str, reason: str
) -> None:
    declared = schema_of(
        f"message {message} {{ int32 n = 1; google.protobuf.Timestamp at = 2; }}".replace(
            "google.protobuf.Timestamp at", "string at" if message == "Timestamp" else "google.protobuf.Timestamp at"
        ),
        "google/protobuf/timestamp.proto",
    )
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", schema, kind="PROTOBUF")
        good = registry.register("orders-value", declared, kind="PROTOBUF")
        wires = prefixed(known, b"\0\x08\x05"), prefixed(known, b"\0\x12\x02\x08\x05"), prefixed(good, b"\0\x08\x05")
        *refused, read = decode(decoder(access, declared, message=f"t.{message}"), *wires)
        assert refused == [f"{OF_ONE}: {reason}"] * 2
        assert read["n"] == 5


def test_a_file_of_google_may_be_a_reference(tmp_path: Path) -> None:
    """Some producers register these files, too."""
    schema = schema_of("message M { google.protobuf.Struct s = 1; }", "google/protobuf/struct.proto")
    text = base64.b64encode(struct_pb2.DESCRIPTOR.serialized_pb).decode()
    with running_registry(tmp_path) as (registry, access):
        registry.register("struct", text, kind="PROTOBUF")
        named = [{"name": "google/protobuf/struct.proto", "subject": "struct", "version": 1}]
        known = registry.register("orders-value", schema, named, kind="PROTOBUF")
        (got,) = decode(decoder(access, schema), prefixed(known, b"\0\x0a\0"))
        assert got == {"s": "{}"}


def test_decoders_that_are_discarded_keep_no_schema(tmp_path: Path) -> None:
    def count_pools() -> int:
        gc.collect()
        return sum(type(one) is kind for one in gc.get_objects())

    schema, kind = schema_of("message M { string s = 1; }"), type(DescriptorPool())
    with running_registry(tmp_path) as (registry, access):
        wire = prefixed(registry.register("orders-value", schema, kind="PROTOBUF"), b"\0\x0a\x01x")
        assert decode(decoder(access, schema), wire) == [{"s": "x"}]
        before = count_pools()
        assert before > 0
        for _ in range(5):
            assert decode(decoder(access, schema), wire) == [{"s": "x"}]
        assert count_pools() == before
