"""Which events of an input of a derived source count, and their keys, in DuckDB's SQL: tasks decide that where they
read them.
"""

from collections.abc import Iterator, Sequence

from hourline_core.compute.lookup_columns import native_lookups
from hourline_core.compute.native_expressions import Native, read_columns, translate, translate_field
from hourline_core.errors import did_you_mean
from hourline_core.model import Source
from hourline_core.model.field_types import SPARK_TYPES
from hourline_core.model.joined_sources import find_other_types
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    RECORD,
    TOPIC,
    visible_name,
)
from hourline_core.sql.literals import identifier

_NAMES = {spark_type: name for name, spark_type in SPARK_TYPES.items() if name != "json"}
"""By type of Spark, the name that a field is declared with."""


def translate_input(source: Source, text: str) -> Native | None:
    """``text``, over the events of an input, in DuckDB's SQL. None: only Spark computes it, it names the record's place
    in its topic, or it needs a lookup. What an event finds there may change, and the pairs would not.
    """
    native = translate(source, text)
    if native is None or any(identifier(name) in native.sql for name in (TOPIC, PARTITION, OFFSET, PLACE)):
        return None
    return native if native_lookups(source, [native.sql]) == [] else None


def translate_key(source: Source, text: str) -> Native | None:
    """The same for a part of the key. A field may have any name, also one that is a word of SQL."""
    return translate_field(source, text) if text in source.event_fields else translate_input(source, text)


def find_unfit_inputs(joined: Source) -> Iterator[tuple[tuple[str, ...], str]]:
    """For each setting of an input that decides which events count, and each part of a key, that tasks cannot compute:
    its place in the join, and a sentence.
    """
    if not joined.join:
        return
    inputs = {source.name: source for source in joined.inputs}
    for side, source in zip(("left", "right"), inputs.values(), strict=False):
        for setting, text in (("id", source.id), ("where", source.where)):
            if text and translate_input(source, text) is None:
                yield (
                    (side,),
                    f"source '{source.name}' has `{setting}: {text}`, allowed are in an input of a join fields, "
                    "comparisons, arithmetic and functions that DuckDB computes as Spark does, without lookups; join "
                    "a source of the same records without it",
                )
    if joined.inputs:
        for one, other in joined.join.on.items():
            parts = list(zip(joined.inputs, (one, other), strict=True))
            # Both sides of a self-join may have the same part.
            yield from ((("on", one), mistake) for mistake in dict.fromkeys(_find_unfit_parts(parts)))


def _find_unfit_parts(parts: Sequence[tuple[Source, str]]) -> Iterator[str]:
    """Sentences about a part of the key on either side."""
    for source, text in parts:
        if text not in source.event_fields and read_columns(text) == []:
            yield (
                f"got '{text}', which names no field, so all events have the same key; allowed are fields of the "
                "source, and expressions over them"
            )
            return
    typed = []
    for source, text in parts:
        if native := translate_key(source, text):
            typed.append((source, text, _NAMES.get(native.type, native.type)))
        elif unknown := _find_unknown(source, text):
            yield f"got '{text}', {unknown}"
        else:
            yield (
                f"got '{text}', allowed are in a key declared and derived fields of source '{source.name}', and "
                "functions of them that DuckDB computes as Spark does, without lookups"
            )
    if len(typed) == 2:
        yield from find_other_types(typed[0], typed[1])


def find_unfit_deletion(source: Source) -> str | None:
    """Why the condition under which an event deletes a row of a table cannot be computed. None: it can, or there is
    none.
    """
    text = source.table.deleted if source.table else None
    if text is None or not source.inputs:
        return None
    (table,) = source.inputs
    native = translate_input(table, text)
    if native is None and (unknown := _find_unknown(table, text)):
        return f"got {text!r}, {unknown}"
    if native is None:
        return (
            f"got {text!r}, allowed are fields of '{table.name}', comparisons, arithmetic and functions that DuckDB "
            "computes as Spark does, without lookups"
        )
    return None if native.type == "boolean" else f"got {text!r}, which is of type {native.type}, allowed is a condition"


def _find_unknown(source: Source, text: str) -> str | None:
    """A clause about the first name in ``text`` that events of an input do not have. None: they have all."""
    fields = [*source.event_fields, *source.derived]
    others = [RECORD, *source.lookups, *(visible_name(name, source.field_names) for name in (EVENT_TIME, HOUR))]
    known = {name.casefold() for name in (*fields, *others)}
    unknown = next((name for name in read_columns(text) or () if name.casefold() not in known), None)
    if unknown is None:
        return None
    return f"in which '{unknown}' is no field of source '{source.name}'{did_you_mean(unknown, fields)}"
