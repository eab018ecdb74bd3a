"""Finds the snapshots and upserts that cannot be."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from hourline_core.errors import did_you_mean
from hourline_core.model.branches import Where, misses_tombstones
from hourline_core.model.expressions import column_names
from hourline_core.model.join import KEY_TYPES
from hourline_core.model.lookup import RECORD_KEY
from hourline_core.model.names import LONGEST
from hourline_core.model.snapshot import SNAPSHOT_ROW, SNAPSHOT_TIME
from hourline_core.model.source import Source
from hourline_core.model.table import KEY_FIELD, Table
from hourline_core.model.upsert import UPSERT_ROW, VERSION_TYPES, Upsert

_Mistake = tuple[tuple[str, ...], str]


def find_table_source_mistakes(sources: Mapping[str, Source], where: Where, unread: Collection[str]) -> Iterator[str]:
    """A line for each mistake in a snapshot or an upsert. ``unread`` are sources that exist, but whose own declaration
    has a mistake.
    """
    for source in sources.values():
        if source.table is None or source.table.of in unread:
            continue
        for path, text in _find_mistakes(source, source.table, sources):
            place = (source.derivation, *path)
            yield f"{where('source', source.name, place)}: {'.'.join(place)}: {text}"


def find_columns_missing(rows: Table, table: Source) -> Iterator[_Mistake]:
    """Each field of a row, and its version, that the source in its place as a table has not."""
    version = (rows.version,) if isinstance(rows, Upsert) else ()
    for path, names in (("key", rows.key), ("columns", rows.columns), ("version", version)):
        for name in names:
            if name not in table.fields or name not in table.event_fields:
                hint = did_you_mean(name, table.fields)
                yield (path,), f"got '{name}', which is no declared field of source '{table.name}'{hint}"


def has_rows(rows: Table, table: Source) -> bool:
    """Whether events of ``table`` have all fields of a row."""
    has_key = bool(rows.key) or table.key_type != "binary"
    return has_key and not table.is_derived and not [*find_columns_missing(rows, table)]


def describe_lost_updates(table: Source, key: Sequence[str]) -> str:
    """Why a ``table`` with this ``key`` would lack newer rows of a key: the ``id`` of its source is the same for all of
    them. Empty: it is not.
    """
    of_key, fields = ({name.casefold() for name in names} for names in (key, (*table.fields, "record")))
    named = _names_in(table.id or "", table) & fields
    if not named or not (named <= of_key or (table.id or "").casefold() in of_key):
        return ""
    return (
        f"got '{table.name}', whose `id: {table.id}` is the same for all rows of a key: a newer row in the same hour "
        f"would be a duplicate; leave `id` out in '{table.name}', or add to it a field that changes with each row"
    )


def _find_mistakes(source: Source, rows: Table, sources: Mapping[str, Source]) -> Iterator[_Mistake]:
    if rows.of not in sources:
        yield ("of",), f"got '{rows.of}', which is no source of this project{did_you_mean(rows.of, sources)}"
        return
    table = sources[rows.of]
    if table.is_derived:
        yield ("of",), f"got '{table.name}', which is {table.origin_text}, allowed is a source of a topic"
        return
    if table.explode:
        yield ("of",), f"got '{table.name}', which explodes its records; allowed is a source without `explode`"
        return
    missing = [*find_columns_missing(rows, table)]
    yield from missing
    if not missing:
        yield from _find_key_mistakes(rows, table, sources)
        if isinstance(rows, Upsert):
            yield from _find_version_mistakes(rows, table)
        elif text := describe_lost_updates(table, rows.key or (RECORD_KEY,)):
            yield ("of",), text
        yield from _find_clashes(source, rows, table)


def _find_key_mistakes(rows: Table, table: Source, sources: Mapping[str, Source]) -> Iterator[_Mistake]:
    if rows.is_by_record_key and table.key_type == "binary":
        yield (
            ("key",),
            f"is missing, and the key of a record of source '{table.name}' is binary; allowed are the fields of a key, "
            f"or `key_type: string`, `int` or `long` in '{table.name}'",
        )
    if rows.is_by_record_key and misses_tombstones(sources.values(), table):
        yield (
            ("key",),
            f"is missing, and records without a value, which delete rows, do not reach source '{table.name}': its "
            "branch is about fields, which they lack; allowed are the fields of a key, or branches about `record.key` "
            "and `record.headers` alone",
        )
    for name in rows.key:
        if (of := str(table.fields[name].tree)) not in KEY_TYPES:
            yield ("key",), f"got '{name}', which is of type {of}, allowed are {', '.join(KEY_TYPES)}"


def _find_version_mistakes(upsert: Upsert, table: Source) -> Iterator[_Mistake]:
    if (of := str(table.fields[upsert.version].tree)) not in VERSION_TYPES:
        yield (
            ("version",),
            f"got '{upsert.version}', which is of type {of}, allowed are {', '.join(VERSION_TYPES)}",
        )
    if upsert.version in upsert.key:
        yield ("version",), f"got '{upsert.version}', which is in the key, so each version would be an event of its own"
    if table.id and upsert.version.casefold() not in _names_in(table.id, table):
        yield (
            ("of",),
            f"got '{table.name}', whose `id: {table.id}` lacks the version '{upsert.version}': a newer version in the "
            f"same hour would be a duplicate; leave `id` out in '{table.name}', or add '{upsert.version}' to it",
        )


def _names_in(text: str, source: Source) -> frozenset[str]:
    """The fields that an expression uses, in lower case, also by the derived ones that it names."""
    names = column_names(text)
    for name, derived in reversed(source.derived.items()):  # A derived field may use earlier ones.
        if name.casefold() in names:
            names |= column_names(derived)
    return frozenset(names)


def _find_clashes(source: Source, rows: Table, table: Source) -> Iterator[_Mistake]:
    """The names that two fields of a row would have."""
    time = f"{table.name}_event_time"
    own = (UPSERT_ROW,) if isinstance(rows, Upsert) else (SNAPSHOT_TIME, SNAPSHOT_ROW)
    named = [
        *((name, f"'{name}' of each {source.derivation}") for name in (*own, KEY_FIELD)),
        *((name, f"'{name}' of '{source.name}' itself") for name in (*source.derived, *source.lookups)),
        *((name, f"field '{name}' of '{table.name}'") for name in rows.names),
        (time, f"the event time of '{table.name}'"),
    ]
    known: dict[str, str] = {}
    for name, of in named:
        if (earlier := known.setdefault(name.casefold(), of)) != of:
            yield (), f"{earlier} and {of} would both be '{name}'; allowed is each name once: rename one of them"
    if len(time) > LONGEST:
        text = f"the event time of '{table.name}' would be '{time}', which has {len(time)} characters"
        yield (), f"{text}, allowed are {LONGEST}"
