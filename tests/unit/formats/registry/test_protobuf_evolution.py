"""Records in Protobuf are read by the schema that they were written by, with the names of their source's."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.fields import Field
from tests.support.protobuf import message_class, schema_of, write
from tests.support.registry_protobuf import decoder, serialize
from tests.support.registry_records import Wire, decode, prefixed, running_registry

KINDS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "int32": (st.integers(-(2**31), 2**31 - 1), 0),
    "sint64": (st.integers(-(2**63), 2**63 - 1), 0),
    "fixed32": (st.integers(0, 2**32 - 1), 0),
    "bool": (st.booleans(), False),
    "double": (st.floats(allow_nan=False, allow_infinity=False), 0.0),
    "string": (st.text(st.characters(exclude_categories=["Cs"]), max_size=4), ""),
}
"""The values of a type, and its default."""
MEMBERS = {
    number: (label, kind)
    for number, (label, kind) in enumerate(
        ((label, kind) for label in ("", "optional ", "repeated ") for kind in KINDS), 1
    )
}
LACKING = {number + 100: of for number, of in MEMBERS.items()}
"""Those of the source's schema that no record has."""
READ = {number: of for number, of in reversed((MEMBERS | LACKING).items()) if number % 5}


def _message(name: str, members: dict[int, tuple[str, str]], letter: str, more: str = "") -> str:
    listed = " ".join(f"{label}{kind} {letter}{number} = {number};" for number, (label, kind) in members.items())
    return f"message {name} {{ {listed} {more} }}"


INNER = "{inner} inner = 500; map<int32, {inner}> each = 501; {name} self = 502;"
WRITER_SCHEMA = schema_of(_message("I", MEMBERS, "w") + _message("M", MEMBERS, "w", INNER.format(inner="I", name="M")))
READER_SCHEMA = schema_of(
    _message("J", READ, "r") + _message("M", READ, "r", INNER.format(inner="J", name="M").replace("self", "own"))
)
STRUCT = ", ".join(
    f"r{number}: {f'array<{kind}>' if label == 'repeated ' else kind}"
    for number, (label, proto) in READ.items()
    for kind in [{"int32": "int", "sint64": "long", "fixed32": "long", "bool": "boolean"}.get(proto, proto)]
)
FIELDS = {
    **{name: Field(type=kind) for name, kind in (part.split(": ") for part in STRUCT.split(", "))},
    "inner": Field(type=f"struct<{STRUCT}>"),
    "each": Field(type=f"map<string, struct<{STRUCT}>>"),
    "own": Field(type=f"struct<inner: struct<{STRUCT}>, {STRUCT}>"),
}
MEMBER_VALUES = st.lists(st.sampled_from(sorted(MEMBERS)), max_size=6, unique=True).flatmap(
    lambda numbers: st.fixed_dictionaries(
        {
            number: st.lists(KINDS[kind][0], max_size=2) if label == "repeated " else KINDS[kind][0]
            for number in numbers
            for label, kind in [MEMBERS[number]]
        }
    )
)


def as_read(values: dict[int, Any]) -> dict[str, Any]:
    """What a source reads of a message that has these values by number."""
    defaults = {
        number: {"optional ": None, "repeated ": []}.get(label, KINDS[kind][1])
        for number, (label, kind) in READ.items()
    }
    return {f"r{number}": values.get(number, default) for number, default in defaults.items()}


def as_written(values: dict[int, Any]) -> dict[str, Any]:
    return {f"w{number}": value for number, value in values.items()}


@given(st.lists(st.tuples(MEMBER_VALUES, st.none() | MEMBER_VALUES, MEMBER_VALUES), min_size=1, max_size=3))
def test_members_are_read_by_their_numbers_and_have_the_defaults_of_the_one_that_lacks_them(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[dict[int, Any], dict[int, Any] | None, dict[int, Any]]],
) -> None:
    kind = message_class(WRITER_SCHEMA)
    with running_registry(tmp_path_factory.mktemp("registry")) as (registry, access):
        schema_id = registry.register("orders-value", WRITER_SCHEMA, kind="PROTOBUF")
        wires: list[Wire] = []
        for own, inner, other in records:
            parts = {} if inner is None else {"inner": as_written(inner)}
            message = kind(**as_written(own), **parts, each={7: as_written(other)}, self=as_written(other) | parts)
            wires.append(prefixed(schema_id, b"\x02\x02" + message.SerializeToString()))
        got = decode(decoder(access, READER_SCHEMA, FIELDS), *wires)
    for row, (own, inner, other) in zip(got, records, strict=True):
        of_inner = None if inner is None else as_read(inner)
        assert row == {
            **as_read(own),
            "inner": of_inner,
            "each": [("7", as_read(other))],
            "own": {"inner": of_inner, **as_read(other)},
        }


def test_what_one_of_both_schemas_requires_has_to_be_there(tmp_path: Path) -> None:
    optional, required = (
        schema_of(
            f"message M {{ {label} int32 n = 1; optional I i = 2; }} message I {{ {label} int32 k = 1; }}",
            syntax="proto2",
        )
        for label in ("optional", "required")
    )
    lacking = schema_of("message M { optional I i = 2; } message I { }", syntax="proto2")
    values = ("", "n: 0", "n: 5 i { }", "n: 5 i { k: 0 }")
    said = "schema id 1 (subject 'orders-value'): invalid Protobuf in '{}': got nothing, and it is required"
    complete = [{"n": 0, "i": None}, said.format("i.k"), {"n": 5, "i": {"k": 0}}]
    for place, (writer, reader, expected) in enumerate(
        [
            (optional, required, [said.format("n"), *complete]),
            (required, optional, [said.format("n"), *complete]),
            (
                optional,
                optional,
                [{"n": None, "i": None}, {"n": 0, "i": None}, {"n": 5, "i": {"k": None}}, complete[-1]],
            ),
        ]
    ):
        with running_registry(tmp_path / str(place)) as (registry, access):
            known = registry.register("orders-value", writer, kind="PROTOBUF")
            wires = [prefixed(known, b"\0" + write(writer, value)) for value in values]
            assert decode(decoder(access, reader), *wires) == expected
    with running_registry(tmp_path / "lacking") as (registry, access):
        known = registry.register("orders-value", lacking, kind="PROTOBUF")
        wires = [prefixed(known, b"\0" + write(lacking, value)) for value in ("", "i { }")]
        inner = {"i": Field(type="struct<k: int>")}
        for fields in (None, inner):
            assert decode(decoder(access, required, fields), *wires) == [said.format("n")] * 2
        within = required.replace("required int32 n", "optional int32 n")
        assert decode(decoder(access, within, inner), *wires) == [
            {"i": None},
            said.format("i.k"),
        ]


def test_what_the_schema_of_the_source_requires_has_to_be_there_also_if_it_is_no_field(tmp_path: Path) -> None:
    optional, required = (
        schema_of(
            f"message M {{ {label} int32 n = 1; optional I i = 2; optional int32 a = 3; optional M m = 4; }} "
            f"message I {{ {label} int32 k = 1; }}",
            syntax="proto2",
        )
        for label in ("optional", "required")
    )
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", optional, kind="PROTOBUF")
        values = ("a: 1", "n: 0 a: 1", "n: 0 i { } a: 1", "n: 0 i { k: 0 } a: 1", "n: 0 m { i { } }")
        wires = [prefixed(known, b"\0" + write(optional, value)) for value in values]
        said = "schema id 1 (subject 'orders-value'): invalid Protobuf in '{}': got nothing, and it is required"
        assert decode(decoder(access, required, {"a": Field(type="int")}), *wires) == [
            said.format("n"),
            {"a": 1},
            said.format("i.k"),
            {"a": 1},
            said.format("m.n"),
        ]


def test_of_two_defaults_that_of_the_schema_counts_that_has_written_the_record(tmp_path: Path) -> None:
    writer, reader = (
        schema_of(f"message M {{ optional int32 n = 1 [default = {n}]; {more} }}", syntax="proto2")
        for n, more in ((5, ""), (7, "optional string c = 2 [default = 'EUR'];"))
    )
    with running_registry(tmp_path) as (registry, access):
        wires = [serialize(registry, writer, value) for value in ("", "n: 0")]
        assert decode(decoder(access, reader), *wires) == [{"n": 5, "c": "EUR"}, {"n": 0, "c": "EUR"}]


@pytest.mark.parametrize("one", ["google.protobuf.StringValue", "string"])
def test_a_text_is_never_taken_for_bytes_in_a_message_of_google_or_the_other_way(tmp_path: Path, one: str) -> None:
    text, in_bytes = (
        schema_of(f"message M {{ {kind} x = 1; }}", "google/protobuf/wrappers.proto")
        for kind in (one, "google.protobuf.BytesValue")
    )
    for place, (writer, reader, kind) in enumerate([(text, in_bytes, "string"), (in_bytes, text, "bytes")]):
        with running_registry(tmp_path / str(place)) as (registry, access):
            (got,) = decode(decoder(access, reader), serialize(registry, writer, ""))
            assert got == f"schema id 1 (subject 'orders-value'): field 'x': got the schema's type {kind}, want string"


def test_a_name_of_an_enum_is_never_that_of_another_number(tmp_path: Path) -> None:
    writer, reader = (
        schema_of(f"enum E {{ {names} }} message M {{ E e = 1; repeated E s = 2; map<int32, E> m = 3; }}")
        for names in ("A = 0; B = 1; C = 2; D = 3;", "A = 0; B = 2; E1 = 3;")
    )
    with running_registry(tmp_path) as (registry, access):
        wires = [serialize(registry, writer, value) for value in ("s: [A, C, D] m { key: 1 value: C }", "e: B")]
        read, refused = decode(decoder(access, reader), *wires)
        assert read == {"e": "A", "s": ["A", "B", "E1"], "m": [("1", "B")]}
        assert isinstance(refused, str)
        assert refused.startswith(
            "schema id 1 (subject 'orders-value'): field 'e': got 1, want the number of one of 3 names"
        )
