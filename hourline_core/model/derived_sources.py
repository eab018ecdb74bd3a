"""Gives derived sources the fields of their inputs."""

from collections.abc import Mapping, Sequence

from hourline_core.model.fields import Field
from hourline_core.model.join import JOINED_ROW, UNMATCHED, Join
from hourline_core.model.snapshot import SNAPSHOT_ROW, SNAPSHOT_TIME
from hourline_core.model.source import Source
from hourline_core.model.table import KEY_FIELD, Table
from hourline_core.model.table_sources import has_rows
from hourline_core.model.upsert import UPSERT_ROW


def bind_derived(sources: Mapping[str, Source]) -> dict[str, Source]:
    """The sources, with the fields of their inputs if they are derived; inputs come before what is made of them. A
    source whose inputs are not all there, or that is its own input, stays as it is.
    """
    bound: dict[str, Source] = {}
    waiting = dict(sources)
    while waiting:
        ready = [source for source in waiting.values() if all(name not in waiting for name in source.input_names)]
        for source in ready or waiting.values():
            bound[source.name] = _bind(source, bound)
        waiting = {name: source for name, source in waiting.items() if name not in bound}
    return bound


def _bind(source: Source, known: Mapping[str, Source]) -> Source:
    if not all(name in known for name in source.input_names):
        return source
    if source.join:
        return _bind_join(source, source.join, [known[side.source] for side in source.join.sides])
    if source.table and has_rows(source.table, known[source.table.of]):
        return _bind_rows(source, source.table, known[source.table.of])
    return source


def _bind_join(source: Source, join: Join, inputs: Sequence[Source]) -> Source:
    """With the fields of both inputs, and the event time of a pair. The input of a self-join is there twice."""
    times: dict[str, Field] = {}
    fields: dict[str, Field] = {}
    for side, one, lacks in zip(join.sides, inputs, join.outer[::-1], strict=True):
        event_time, *names = (name for name, _ in side.joined_names(one.event_fields))
        times[event_time] = Field(type="timestamp", required=not lacks)
        for joined, name in zip(names, one.event_fields, strict=True):
            required = name in one.required_fields and not lacks
            fields[joined] = Field(type=one.type_of(name) or "string", required=required)
    # It is null if both are: the greatest of one time and null is that time.
    time = f"greatest({', '.join(times)})"
    for event_time in (name for name, timed in zip(times, join.timed_by, strict=True) if timed):
        time = f"coalesce({event_time}, {time})"
    ids = [
        *([JOINED_ROW] if any(one.takes_back for one in inputs) else []),
        *([UNMATCHED] if join.type != "inner" else []),
    ]
    own = {name: Field(type="string") for name in ids}
    return source.bind_inputs(inputs, {**times, **fields, **own}, time, source.id or next(iter(ids), None))


def _bind_rows(source: Source, rows: Table, table: Source) -> Source:
    """With the key and the columns of a row, and its times."""
    event_time = f"{table.name}_event_time"
    of_key = {KEY_FIELD: Field(type=table.key_type)} if rows.is_by_record_key else {}
    fields = {
        event_time: Field(type="timestamp", required=True),
        **of_key,
        **{name: Field(type=table.fields[name].type) for name in rows.names},
    }
    if source.upsert:
        return source.bind_inputs([table], fields | {UPSERT_ROW: Field(type="string")}, event_time, UPSERT_ROW)
    fields = {SNAPSHOT_TIME: Field(type="timestamp", required=True), **fields, SNAPSHOT_ROW: Field(type="string")}
    # The last moment of the hour that ends with the snapshot.
    return source.bind_inputs([table], fields, f"{SNAPSHOT_TIME} - INTERVAL 1 MICROSECOND", SNAPSHOT_ROW)
