"""Writes a test from a real hour of a metric: the records whose events are in it, and its rows as they are served."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

from hourline_core.errors import UsageError
from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.formats.registry.wire_format import HEADER, NoSchemaIdError, written_by
from hourline_core.model import Metric, Project, Source, to_stored
from hourline_core.model.given_records import RECOMPUTES
from hourline_core.model.hour_state import UNRELIABLE
from hourline_core.model.hours import hour_text, iso_text
from hourline_core.model.metric_test import MOST_RECORDS
from hourline_core.model.scratch_columns import RECORD, VALUE
from hourline_core.sql.literals import identifier, literal
from hourline_core.validation.file_rows import CONTENT_TYPE, CSV
from serving_layer.connection import Connection

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = ("true", "false", "null", *RECOMPUTES)
_Item = dict[str, Any]


class _Number(str):
    """A number of JSON, in its own digits."""


def record_test(connection: Connection, metric: str, hour: datetime) -> str:
    """The text of a test of ``metric``, one of the project's, by its ``hour`` (UTC).

    Raises UsageError when the metric has other windows than hours, the hour has no reliable result or too many records,
    or the archive lacks their bytes.
    """
    project = connection.project
    declared = project.all_metrics[metric]
    if not declared.window.is_hour:
        raise UsageError(f"'{metric}' has windows, allowed with --record is a metric whose windows are hours")
    source, name = project.source_of(declared), f"{metric} at {hour_text(hour)}"
    if source.is_derived:
        raise UsageError(
            f"source '{source.name}' of {metric} is {source.origin_text}, allowed with --record is a metric over a "
            "source of topics"
        )
    _refuse_unreliable(connection, project, metric, hour)
    records = _records_of(connection, source, hour)
    if not records:
        raise UsageError(f"{name} has no events, allowed with --record is an hour that has some")
    if len(records) > MOST_RECORDS:
        raise UsageError(
            f"{name} has more than {MOST_RECORDS} records, which is what a test takes; choose an hour with fewer"
        )
    uses_record = re.search(rf"\b{RECORD}\b", to_stored(source, declared) + source.event_time.expression) is not None
    partitions = {
        of: number for number, of in enumerate(dict.fromkeys((r["topic_id"], r["partition"]) for r in records))
    }
    rows = connection.sql(
        f"SELECT * EXCLUDE (state) FROM {identifier(metric)} WHERE hour = {literal(hour)} ORDER BY ALL"
    ).to_arrow_table()
    arrived = max((one["record"]["arrived"] for one in records if one["record"]), default=None)
    lines = [f"description: {_text(f'Recorded: {name}')}", f"source: {source.name}"]
    if arrived is not None:
        lines.append(f"arrived: {iso_text(arrived)}")
    if source.explode:
        lines.append("partial: true")
    lines += ["", "given:"]
    for one in records:
        lines.append(f"  - {_given(source, one, partitions[one['topic_id'], one['partition']], uses_record)}")
    lines += ["", "expect:", f"  {metric}:" if rows.num_rows else f"  {metric}: []"]
    lines += [f"    - {_row(declared, row)}" for row in rows.to_pylist()]
    return "\n".join([*lines, ""])


def _refuse_unreliable(connection: Connection, project: Project, metric: str, hour: datetime) -> None:
    states = connection.sql(
        f"SELECT state FROM hours WHERE kind = 'metric' AND name = {literal(project.base_of(metric))} "
        f"AND hour = {literal(hour)}"
    ).fetchall()
    if not states:
        raise UsageError(f"'{metric}' has no hour {hour_text(hour)}; `hourline query 'FROM hours'` lists them")
    ((state,),) = states
    if state in UNRELIABLE:
        raise UsageError(f"{metric} at {hour_text(hour)} is {state}, allowed is an hour whose result is reliable")


def _records_of(connection: Connection, source: Source, hour: datetime) -> list[_Item]:
    """topic_id, partition, offset, record, and value (bytes) of each record with an event in ``hour``, as they were
    read; one more than a test takes, if there are so many.
    """
    events, last = f"hourline.events_{source.name}", connection.snapshot.progress[source.name].sequence
    database = connection.attached(f"events_{source.name}", events)
    known = {name for name, *_ in database.execute(f"DESCRIBE {events}").fetchall()}
    if not {VALUE, "record"} <= known:
        raise UsageError(f"the archive of '{source.name}' has no bytes of records: an older Hourline made it")
    address = 'topic_id, partition, "offset"'
    found = database.execute(f"""
        SELECT {address}, min(sequence) AS sequence, any_value(record) AS record, any_value({VALUE}) AS value
        FROM {events} SEMI JOIN (SELECT {address} FROM {events} WHERE hour = {literal(hour)}) USING ({address})
        WHERE sequence <= {last} GROUP BY {address} ORDER BY sequence, {address} LIMIT {MOST_RECORDS + 1}""")
    rows: list[_Item] = found.to_arrow_table().to_pylist()
    for row in rows:
        if row["value"] is None:
            raise UsageError(
                f"the archive of '{source.name}' has no bytes of the record at offset {row['offset']} of partition "
                f"{row['partition']}; --record needs them (`raw: true`)"
            )
    return rows


def _given(source: Source, one: _Item, partition: int, uses_record: bool) -> str:
    """The item of `given` for a record."""
    record = one["record"] or {}
    value, headers = one["value"], dict(record.get("headers") or ())
    if record.get("timestamp_type") is not None:
        value = _text_of_record(source, value, headers.pop(HEADER, None) if source.format.uses_registry else None)
    elif headers.get(CONTENT_TYPE) == CSV:
        value, headers = TypedRow(source.fields)(value), {}
    item = _event(source, _decoded(value, "value"))
    parts: list[str] = []
    if uses_record and record.get("key") is not None:
        parts.append(f"key: {_text(_decoded(record['key'], 'key'))}")
    if partition:
        parts.append(f"partition: {partition}")
    if uses_record and record.get("timestamp") is not None:
        parts.append(f"timestamp: {iso_text(record['timestamp'])}")
    if uses_record and headers:
        texts = [f"{_text(name)}: {_text(_decoded(text, 'header'))}" for name, text in headers.items()]
        parts.append(f"headers: {{{', '.join(texts)}}}")
    return f"{{record: {{{', '.join(parts)}}}, value: {item}}}" if parts else item


def _text_of_record(source: Source, value: bytes, header: bytes | None) -> bytes:
    """The text in the ``value`` of a record of a topic, without the id of its schema. ``header`` may have that."""
    if source.format.name in ("avro", "protobuf"):
        raise UsageError(
            f"source '{source.name}' takes records in {source.format.name}, allowed with --record are texts; write the "
            "events of the test as YAML"
        )
    if not source.format.uses_registry:
        return value
    try:
        return value[written_by(value, header)[1] :]
    except NoSchemaIdError:  # It came before its source was declared in this way.
        return value


def _decoded(value: bytes, what: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise UsageError(f"a {what} of a record is no text in UTF-8, allowed with --record are texts") from None


def _event(source: Source, text: str) -> str:
    """The declared fields of the JSON object ``text``, in YAML; or the text, if it is no such object."""
    keys = {field.key or name for name, field in source.fields.items()}
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError):
        return _text(text)
    if not isinstance(value, dict) or not keys & value.keys():
        return _text(text)
    return _yaml({name: item for name, item in value.items() if name in keys})


def _once(pairs: list[tuple[str, Any]]) -> _Item:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _row(metric: Metric, row: Mapping[str, Any]) -> str:
    """A row of the metric's view, without what cannot be written."""
    hour = {"hour": _Number(hour_text(row["hour"]))}
    return _yaml({**hour, **{name: value for name, value in row.items() if name != "hour" and _is_written(value)}})


def _is_written(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_written, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, str | int | float | Decimal | date)


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(name)}: {_yaml(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return "NaN" if isnan(value) else repr(value).replace("inf", "Infinity")
    if isinstance(value, str) and not isinstance(value, _Number):
        return _text(value)
    return iso_text(value) if isinstance(value, datetime) else str(value)


def _text(text: str) -> str:
    """``text`` as a scalar of YAML that stands for no number, boolean or variable."""
    if _PLAIN.fullmatch(text) and text not in _WORDS:
        return text
    return f'"{"".join(_escaped(text.replace("${", "$${")))}"'


def _escaped(text: str) -> Iterator[str]:
    for character in text:
        if character in '"\\':
            yield f"\\{character}"
        elif character.isprintable():
            yield character
        else:
            yield f"\\U{ord(character):08x}"
