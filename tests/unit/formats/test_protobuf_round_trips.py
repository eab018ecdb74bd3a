"""What Google's library writes is read as it was, for schemas and values of any shape."""

import base64
import json
import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.formats.format import decoder_of
from hourline_core.model.fields import Field
from tests.support.protobuf import format_of, message_class, schema_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "bool": st.booleans(),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": TEXTS,
    "bytes": st.binary(max_size=5),
    "Colour": st.sampled_from([0, 1, -2]),
}
KEYS = {**INTEGERS, "bool": st.booleans(), "string": TEXTS}
COLOURS = {0: "NONE", 1: "RED", -2: "BLUE"}

MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    **{f"{kind} m_{kind}": values for kind, values in SCALARS.items()},
    **{f"optional {kind} o_{kind}": st.none() | values for kind, values in SCALARS.items()},
    **{f"repeated {kind} r_{kind}": st.lists(values, max_size=3) for kind, values in SCALARS.items()},
    **{
        f"map<{key}, {kind}> k_{key}": st.dictionaries(keys, SCALARS[kind], max_size=3)
        for (key, keys), kind in zip(KEYS.items(), [*SCALARS, *SCALARS][3:], strict=False)
    },
}
"""By the declaration of a member, its values."""
SCHEMA = schema_of(
    "enum Colour { NONE = 0; RED = 1; BLUE = -2; } "
    + "".join(
        f"message {name} {{ {' '.join(f'{member} = {place};' for place, member in enumerate(MEMBERS, 1))} {more} }} "
        for name, more in (("I", ""), ("M", "I one = 200; repeated I some = 3000; map<int32, I> each = 4000;"))
    )
)
"""One schema, since each takes a compiler. The parts of its message M have the same members."""
FIELDS = {name: Field(type=kind) for name, kind in format_of(SCHEMA).fields.items() if kind}
DECODER = decoder_of(format_of(SCHEMA), FIELDS)
MESSAGE = message_class(SCHEMA)


def _values() -> st.SearchStrategy[dict[str, Any]]:
    """Some members of a message by name."""
    names = {member.split()[-1]: values for member, values in MEMBERS.items()}
    return st.lists(st.sampled_from(sorted(names)), max_size=6, unique=True).flatmap(
        lambda some: st.fixed_dictionaries({name: names[name] for name in some})
    )


VALUES = st.tuples(
    _values(),
    st.none() | _values(),
    st.lists(_values(), max_size=2),
    st.dictionaries(KEYS["int32"], _values(), max_size=1),
).map(lambda four: {**four[0], "one": four[1], "some": four[2], "each": four[3]})


def _plain(field: Any, value: Any) -> Any:
    """A value of ``field`` as a row has it, from what was written."""
    if field.message_type and field.message_type.GetOptions().map_entry:
        of_value = field.message_type.fields_by_name["value"]
        return sorted((_key(key), _scalar(of_value, one)) for key, one in value.items())
    if isinstance(value, list):
        return [_scalar(field, one) for one in value]
    return _scalar(field, value)


def _key(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool) else str(key)


def _scalar(field: Any, value: Any) -> Any:
    match value:
        case dict():
            return _with_defaults(field.message_type, value)
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return (value, math.copysign(1, value))
        case int() if field.enum_type:
            return COLOURS[value]
    return value


def _as_read(value: Any) -> Any:
    match value:
        case dict():
            return {name: _as_read(one) for name, one in value.items()}
        case list() if value and all(isinstance(one, tuple) for one in value):
            return sorted((name, _as_read(one)) for name, one in value)
        case list():
            return [_as_read(one) for one in value]
        case float():
            return (value, math.copysign(1, value))
    return value


def _with_defaults(message: Any, value: dict[str, Any]) -> dict[str, Any]:
    """The members of ``message``, a descriptor, with those that ``value`` lacks."""
    whole = {}
    for field in message.fields:
        if field.is_repeated:
            default: Any = {} if field.message_type and field.message_type.GetOptions().map_entry else []
        else:
            default = None if field.has_presence else field.default_value
        given = value.get(field.name)
        whole[field.name] = _plain(field, default if given is None else given)
    return whole


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_what_googles_library_writes_is_read_as_it_was(values: list[dict[str, Any]]) -> None:
    written = [MESSAGE(**value).SerializeToString() for value in values]
    decoded = DECODER.decode(pa.array(written, pa.binary()))
    assert decoded.reasons.to_pylist() == [None] * len(values)
    for row, value in zip(pa.table(decoded.columns).to_pylist(), values, strict=True):
        assert _as_read(row) == _with_defaults(MESSAGE.DESCRIPTOR, value)
