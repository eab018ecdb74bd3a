"""Checks of lookups whose table is a source: it has their columns, with their types."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from hourline_core.errors import did_you_mean
from hourline_core.model.branches import Where, misses_tombstones
from hourline_core.model.lookup import EVENT_TIME, RECORD_KEY, VALID_TO, Lookup
from hourline_core.model.source import Source
from hourline_core.model.table_sources import describe_lost_updates


def find_lookup_table_mistakes(
    lookups: Iterable[Lookup], sources: Mapping[str, Source], where: Where, unread: Collection[str]
) -> Iterator[str]:
    """A line for each column of a lookup that the source in its place as a table has not. ``unread`` are sources that
    exist, but whose own declaration has a mistake.
    """
    for lookup in lookups:
        named = lookup.table_source
        if named is None or named in unread:
            continue
        if named not in sources:
            place = where("lookup", lookup.name, ("table",))
            yield f"{place}: table: got '{named}', which is no source of this project{did_you_mean(named, sources)}"
            continue
        if sources[named].is_derived:
            place = where("lookup", lookup.name, ("table",))
            text = f"got '{named}', which is {sources[named].origin_text}, allowed is a source of a topic"
            yield f"{place}: table: {text}"
            continue
        if misses_tombstones(sources.values(), sources[named]) and RECORD_KEY in lookup.key_in_table:
            place = where("lookup", lookup.name, ("key",))
            yield (
                f"{place}: key: got '{RECORD_KEY}', and records without a value, which delete rows, do not reach "
                f"source '{named}': its branch is about fields, which they lack; allowed are fields, or branches about "
                "`record.key` and `record.headers` alone"
            )
        if text := describe_lost_updates(sources[named], lookup.key_in_table):
            yield f"{where('lookup', lookup.name, ('table',))}: table: {text}"
        for name, text in _find_column_mistakes(lookup, sources[named]):
            yield f"{where('lookup', lookup.name, ('columns', name))}: columns.{name}: {text}"


def _find_column_mistakes(lookup: Lookup, source: Source) -> Iterator[tuple[str, str]]:
    # A field may have the name of the event time, unless that is when rows become valid.
    types = {RECORD_KEY: source.key_type, EVENT_TIME: "timestamp"}
    types |= {name: str(field.tree) for name, field in source.fields.items() if name in source.event_fields}
    types = {name: "string" if text == "json" else text for name, text in types.items()}
    types |= {EVENT_TIME: "timestamp", VALID_TO: "timestamp"} if lookup.valid_from else {}
    for name, column in lookup.columns.items():
        named = lookup.names_in_table[name]
        if named not in types:
            hint = did_you_mean(named, types)
            yield name, f"got '{named}', which is no declared field of source '{source.name}'{hint}"
        elif types[named] == "binary":
            allowed = "allowed is it with `key_type: string`, `int` or `long` in the source"
            yield name, f"got '{named}', which is binary in source '{source.name}', {allowed}"
        elif types[named] != str(column.tree):
            yield name, f"got the type {column.type}, allowed is that of '{named}', {types[named]}"
