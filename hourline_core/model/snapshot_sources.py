"""Finds the snapshots that cannot be."""

from collections.abc import Collection, Iterator, Mapping

from hourline_core.errors import did_you_mean
from hourline_core.model.branches import Where
from hourline_core.model.join import KEY_TYPES
from hourline_core.model.names import LONGEST
from hourline_core.model.snapshot import SNAPSHOT_KEY, SNAPSHOT_ROW, SNAPSHOT_TIME, Snapshot
from hourline_core.model.source import Source

_Mistake = tuple[tuple[str, ...], str]


def find_snapshot_mistakes(sources: Mapping[str, Source], where: Where, unread: Collection[str]) -> Iterator[str]:
    """A line for each mistake in a snapshot. ``unread`` are sources that exist, but whose own declaration has a
    mistake.
    """
    for source in sources.values():
        if source.snapshot is None or source.snapshot.of in unread:
            continue
        for path, text in _find_mistakes(source, source.snapshot, sources):
            yield f"{where('source', source.name, ('snapshot', *path))}: {'.'.join(('snapshot', *path))}: {text}"


def find_columns_missing(snapshot: Snapshot, table: Source) -> Iterator[_Mistake]:
    """Each field of a row that the source in its place as a table has not."""
    for path, names in (("key", snapshot.key), ("columns", snapshot.columns)):
        for name in names:
            if name not in table.fields or name not in table.event_fields:
                hint = did_you_mean(name, table.fields)
                yield (path,), f"got '{name}', which is no declared field of source '{table.name}'{hint}"


def has_rows(snapshot: Snapshot, table: Source) -> bool:
    """Whether events of ``table`` have all fields of a row."""
    has_key = bool(snapshot.key) or table.key_type != "binary"
    return has_key and not table.is_derived and not [*find_columns_missing(snapshot, table)]


def _find_mistakes(source: Source, snapshot: Snapshot, sources: Mapping[str, Source]) -> Iterator[_Mistake]:
    if snapshot.of not in sources:
        yield ("of",), f"got '{snapshot.of}', which is no source of this project{did_you_mean(snapshot.of, sources)}"
        return
    table = sources[snapshot.of]
    if table.is_derived:
        yield ("of",), f"got '{table.name}', which is {table.origin_text}, allowed is a source of a topic"
        return
    if table.explode:
        yield ("of",), f"got '{table.name}', which explodes its records; allowed is a source without `explode`"
        return
    missing = [*find_columns_missing(snapshot, table)]
    yield from missing
    if not missing:
        yield from _find_key_mistakes(snapshot, table)
        yield from _find_clashes(source, snapshot, table)


def _find_key_mistakes(snapshot: Snapshot, table: Source) -> Iterator[_Mistake]:
    if snapshot.is_by_record_key and table.key_type == "binary":
        yield (
            ("key",),
            f"is missing, and the key of a record of source '{table.name}' is binary; allowed are the fields of a key, "
            f"or `key_type: string`, `int` or `long` in '{table.name}'",
        )
    for name in snapshot.key:
        if (of := str(table.fields[name].tree)) not in KEY_TYPES:
            yield ("key",), f"got '{name}', which is of type {of}, allowed are {', '.join(KEY_TYPES)}"


def _find_clashes(source: Source, snapshot: Snapshot, table: Source) -> Iterator[_Mistake]:
    """The names that two fields of a row would have."""
    time = f"{table.name}_event_time"
    named = [
        *((name, f"'{name}' of each snapshot") for name in (SNAPSHOT_TIME, SNAPSHOT_ROW, SNAPSHOT_KEY)),
        *((name, f"'{name}' of '{source.name}' itself") for name in (*source.derived, *source.lookups)),
        *((name, f"field '{name}' of '{table.name}'") for name in snapshot.names),
        (time, f"the event time of '{table.name}'"),
    ]
    known: dict[str, str] = {}
    for name, of in named:
        if (earlier := known.setdefault(name.casefold(), of)) != of:
            yield (), f"{earlier} and {of} would both be '{name}'; allowed is each name once: rename one of them"
    if len(time) > LONGEST:
        text = f"the event time of '{table.name}' would be '{time}', which has {len(time)} characters"
        yield (), f"{text}, allowed are {LONGEST}"
