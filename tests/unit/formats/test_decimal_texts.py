"""A decimal in a text of Protobuf is what it is in a text of JSON."""

from functools import cache

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from hourline_core.formats.format import Decoder, decoder_of
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.fields import Field
from tests.support.protobuf import format_of, message_class, schema_of

SCHEMA = schema_of("message M { string x = 1; }")
NUMBERS = st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{1,4})?", fullmatch=True)
OTHERS = st.text("-+.,0129eE_ \n٣", max_size=8)


@cache
def _decoders(kind: str, rounds: bool) -> tuple[Decoder, Decoder]:
    fields = {"x": Field(type=kind, round=True) if rounds else Field(type=kind)}
    return decoder_of(format_of(SCHEMA), fields), JsonDecoder(fields)


KINDS = ("decimal(5,2)", "decimal(3,3)", "decimal(4,0)", "decimal(38,10)")


@given(text=NUMBERS | OTHERS, kind=st.sampled_from(KINDS), rounds=st.booleans())
@example(text="-0.05", kind="decimal(5,2)", rounds=False)
@example(text="-0", kind="decimal(4,0)", rounds=False)
@example(text="007.10", kind="decimal(5,2)", rounds=False)
@example(text="-0.1235", kind="decimal(3,3)", rounds=True)
@example(text="1\n", kind="decimal(4,0)", rounds=False)
def test_a_text_is_the_number_that_it_is_in_json(text: str, kind: str, rounds: bool) -> None:
    protobuf, json = _decoders(kind, rounds)
    written = message_class(SCHEMA)(x=text).SerializeToString() or b"\xf8\x7f\x00"
    ours = protobuf.decode(pa.array([written], pa.binary()))
    quoted = '"' + text.replace("\n", "\\n") + '"'
    theirs = json.decode(pa.array([f'{{"x": {quoted}}}'.encode()], pa.binary()))
    assert ours.columns["x"].to_pylist() == theirs.columns["x"].to_pylist()
    assert ours.reasons.is_null().to_pylist() == theirs.reasons.is_null().to_pylist()
