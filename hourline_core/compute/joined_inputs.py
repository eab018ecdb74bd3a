"""Which events of an input of a derived source count, in DuckDB's SQL: tasks decide that where they read them."""

from collections.abc import Iterator

from hourline_core.compute.lookup_columns import native_lookups
from hourline_core.compute.native_expressions import translate
from hourline_core.model import Source


def translate_for_join(source: Source, text: str) -> str | None:
    """``text``, over the events of an input, in DuckDB's SQL. None: only Spark computes it, or it needs a lookup. What
    an event finds there may change, and the pairs would not.
    """
    native = translate(source, text)
    return None if native is None or native_lookups(source, [native.sql]) else native.sql


def find_unfit_inputs(joined: Source) -> Iterator[tuple[str, str]]:
    """For each setting of an input that decides which events count, and that tasks cannot compute: the side of the
    input, and a sentence.
    """
    if not joined.join:
        return
    inputs = {source.name: source for source in joined.inputs}
    for side, source in zip(("left", "right"), inputs.values(), strict=False):
        for setting, text in (("id", source.id), ("where", source.where)):
            if text and translate_for_join(source, text) is None:
                yield (
                    side,
                    f"source '{source.name}' has `{setting}: {text}`, allowed are in an input of a join fields, "
                    "comparisons, arithmetic and functions that DuckDB computes as Spark does, without lookups; join "
                    "a source of the same records without it",
                )


def find_unfit_deletion(source: Source) -> str | None:
    """Why the condition under which an event deletes a row of a snapshot cannot be computed. None: it can, or there is
    none.
    """
    text = source.snapshot.deleted if source.snapshot else None
    if text is None or not source.inputs:
        return None
    native = translate(source.inputs[0], text)
    if native and native.type != "boolean":
        return f"got {text!r}, which is of type {native.type}, allowed is a condition"
    if native and not native_lookups(source.inputs[0], [native.sql]):
        return None
    return (
        f"got {text!r}, allowed are fields of '{source.inputs[0].name}', comparisons, arithmetic and functions that "
        "DuckDB computes as Spark does, without lookups"
    )
