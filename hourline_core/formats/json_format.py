"""Records whose value is one JSON object."""

from collections.abc import Mapping
from secrets import token_hex

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.model.fields import Field
from hourline_core.model.scratch_columns import SCRATCH_PREFIX, UNDECODED, UNEXPLAINED, VALUE

_PARSED = f"{SCRATCH_PREFIX}parsed"
_CORRUPT = f"{SCRATCH_PREFIX}corrupt"

_WRAPPER, _END = f"wrapper_{token_hex(16)}", f"end_{token_hex(16)}"
"""Names within the JSON text that no producer can guess, new in each process."""

_HIGH, _LOW = r"u[dD][89abAB][0-9a-fA-F]{2}", r"u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = (
    r"(?=\\)(?<!\\)(?:"  # The first of several backslashes. Looked for ahead at first, which is fast.
    # An even number of them, so the next one begins an escape. Possessive: it is never tried with fewer.
    rf"(?:\\\\)*+(?:\\{_HIGH}(?!\\{_LOW})|(?<!\\{_HIGH})\\{_LOW})"
    # The text of a first half, since its backslash is escaped, before a second half.
    rf"|(?:\\\\)++{_HIGH}\\{_LOW})"
)
"""The escape of one half of a surrogate pair without the other. Spark would read it as a question mark.

The time to look for it grows with the text's length, and not faster.
"""

_OPTIONS = {
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    # Strict. Otherwise Spark would read '12:00' as noon of the current day, and a local time as one in UTC.
    "timestampFormat": "yyyy-MM-dd['T'][ ]HH:mm:ss[.SSSSSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd['T'][ ]HH:mm:ss[.SSSSSSSSS]",
    "dateFormat": "yyyy-MM-dd",
}


class JsonFormat:
    """JSON objects with ``fields``. Undeclared fields are ignored; absent fields are null."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = fields

    def decode(self, records: DataFrame, *, explain: bool) -> DataFrame:
        """As ``RecordFormat.decode``. The text must be valid UTF-8 and exactly one JSON object."""
        # Spark's JSON reader ignores what follows the first value. So the text goes into an array, before an element
        # that only this process can write. If the text is one value, that element is the second one. If it is more, or
        # closes the array itself, it is not.
        fields = self._declared_fields()
        whole = f"{_WRAPPER} array<struct<{fields}, {_END} int>>, {_CORRUPT} string"
        wrapped = F.concat(F.lit(f'{{"{_WRAPPER}":['), F.col(VALUE).cast("string"), F.lit(f',{{"{_END}":1}}]}}'))
        # Spark interprets from_json, and all else in the same projection. So it stands alone. What needs its result is
        # compiled.
        parsed = records.withColumn(_PARSED, F.from_json(wrapped, whole, _OPTIONS))
        body = F.col(_PARSED)[_WRAPPER][0]
        decoded = [_in_utc(body[self._key(name)], field).alias(name) for name, field in self._fields.items()]
        return parsed.select("*", *decoded, self._undecoded(explain).alias(UNDECODED)).drop(_PARSED)

    def _undecoded(self, explain: bool) -> Column:
        """Why the value is not one JSON object of the declared fields; null if it is."""
        parsed, text = F.col(_PARSED), F.col(VALUE).cast("string")
        elements = parsed[_WRAPPER]
        is_one_object = (F.size(elements) == 2) & elements[0].isNotNull() & (elements[1][_END] == 1)
        malformed = parsed[_CORRUPT].isNotNull() | ~F.coalesce(is_one_object, F.lit(False))
        words = self._malformed(text) if explain else F.lit(UNEXPLAINED)
        # Most texts have no such escape at all, which is found out much faster than by the pattern.
        may_be_lone = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
        is_lone = may_be_lone & text.rlike(_LONE_SURROGATE)
        return (
            F.when(~F.is_valid_utf8(text), "invalid UTF-8")
            .when(is_lone, "invalid JSON: half of a surrogate pair, which is no character")
            .when(malformed, words)
        )

    def _malformed(self, text: Column) -> Column:
        """Why Spark could not read ``text`` as the declared fields: the first field of another type, or no JSON
        object at all.
        """
        alone = F.from_json(text, f"{self._declared_fields()}, {_CORRUPT} string", _OPTIONS)
        # Read as text, a number keeps all of its digits.
        keys = dict.fromkeys(map(self._key, self._fields))
        as_written = F.from_json(text, ", ".join(f"`{key}` string" for key in keys), _OPTIONS)
        wrong_types = []
        for name, field in self._fields.items():
            key = self._key(name)
            got = as_written[key]
            is_wrong = alone[key].isNull() & (F.coalesce(got, F.lit("null")) != "null")
            if "<" in field.spark_type:  # of which Spark gives what it could read
                itself = F.from_json(text, f"`{key}` {_read_type(field)}, {_CORRUPT} string", _OPTIONS)
                is_wrong |= itself[_CORRUPT].isNotNull()
            words = F.concat(
                F.lit(f"field '{name}': got "), F.left(got, F.lit(80)), F.lit(f", want {_describe_type(field)}")
            )
            wrong_types.append(F.when(is_wrong, words))
        is_no_object = (
            F.is_variant_null(F.try_parse_json(text)) | F.try_parse_json(text).isNull() | alone[_CORRUPT].isNull()
        )
        no_object = F.when(is_no_object, "invalid JSON: not exactly one object")
        return F.coalesce(no_object, *wrong_types, F.lit("not a JSON object of the declared fields"))

    def _key(self, name: str) -> str:
        """The name that the field has in the JSON object."""
        return self._fields[name].key or name

    def _declared_fields(self) -> str:
        """The declared fields as Spark DDL, under their names in the JSON object."""
        return ", ".join(f"`{self._key(name)}` {_read_type(field)}" for name, field in self._fields.items())


def _read_type(field: Field) -> str:
    """The Spark type that the field is read as. A local time has no offset yet."""
    return "timestamp_ntz" if field.zone else field.spark_type


def _in_utc(value: Column, field: Field) -> Column:
    return F.to_utc_timestamp(value.cast("timestamp"), field.zone) if field.zone else value


def _describe_type(field: Field) -> str:
    if field.type != "timestamp":
        return field.type
    if field.zone:
        return "timestamp without an offset, such as 2013-01-05T14:30:00"
    return (
        "timestamp with an offset, such as 2013-01-05T14:30:00Z "
        "(without an offset: declare encoding: local and a zone for the field)"
    )
