"""The page of all settings and keys of declarations, from the pydantic models."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from docs.generate.markdown import code, heading, link, prose, table
from docs.generate.markdown import page as whole_page
from hourline_core.model import (
    EventTime,
    Expectation,
    Field,
    History,
    Lookup,
    Measure,
    Metric,
    Settings,
    Sink,
    Source,
    UserMeasure,
    Volume,
)
from hourline_core.model.base import Declaration
from hourline_core.model.csv_format import CsvFormat
from hourline_core.model.expressions import Expression
from hourline_core.model.files import DeltaCommits, Files
from hourline_core.model.finding_bounds import Bound, ShareBound, SizeBound, SourceFindings, TimeBound
from hourline_core.model.join import Join, JoinSide, Within
from hourline_core.model.lookup import LookupColumn
from hourline_core.model.metric_test import MetricTest
from hourline_core.model.metric_window import MetricWindow, SizeForm
from hourline_core.model.protobuf_format import ProtobufFormat, SchemaForm
from hourline_core.model.record_format import AvroFormat, JsonFormat, RecordFormat
from hourline_core.model.rollup import Rollup
from hourline_core.model.schedule import Cron
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.sink import Webhook
from hourline_core.model.snapshot import Snapshot
from hourline_core.model.text_format import TextFormat
from hourline_core.model.topics import TopicPattern
from hourline_core.model.upsert import Upsert

_INTRODUCTION = """
A project is a folder. Its settings are in `hourline.yaml`, each source is a file in `sources/`, and each metric is a
file in `metrics/`. A lookup is a file in `lookups/`, and a sink one in `sinks/`. A test of metrics is a file in
`tests/`. A measure of your own is a file in `measures/` or `folds/`. Schemas of Avro and Protobuf are files in
`schemas/`.
[Declare a source and metrics](../guides/declare-a-source-and-metrics.md) shows how to write them.
`hourline schema` prints JSON Schemas of these files for editors.
"""

_VALUES = """
- A *duration* is written `30s`, `90m`, `2h`, `1d`, `1h 30m` or `PT2H`.
- A *time* has its offset from UTC, such as `2026-01-31T00:00:00Z`.
- An *expression* is Spark SQL. If it raises an error for an event, it is null for that event; see
  [Expressions](../guides/declare-a-source-and-metrics.md#expressions).
- A number, `true` or `false` stands without quotes. In quotes it is text, and refused where a number or boolean is
  wanted. A variable may be in quotes.
- `${NAME}` and `${NAME:default}` take a value from the environment, in every file.
- A key with nothing after it has its default.
"""

_TITLES: dict[type[Declaration], str] = {
    Field: "Fields",
    EventTime: "Event time",
    TopicPattern: "Topic pattern",
    RecordFormat: "Format",
    AvroFormat: "Avro",
    CsvFormat: "CSV",
    TextFormat: "Text",
    ProtobufFormat: "Protobuf",
    JsonFormat: "JSON",
    Files: "Files",
    DeltaCommits: "Delta table",
    Join: "Join",
    JoinSide: "Side of a join",
    Within: "Interval of a join",
    Snapshot: "Snapshot",
    Upsert: "Upsert",
    LookupColumn: "Columns of a lookup",
    Measure: "Measures",
    UserMeasure: "User-defined measures",
    Expectation: "Expectations",
    MetricWindow: "Window",
    SessionWindow: "Sessions",
    History: "History",
    Volume: "Volume",
    SourceFindings: "Findings of a source",
    ShareBound: "A bound on a share",
    TimeBound: "A bound on a time",
    SizeBound: "A bound on a size",
    Webhook: "Webhook",
}
"""The parts that describe the values of a key."""

_WORDS: list[tuple[Any, str]] = [
    (Expression, "expression"),
    (Cron, "cron"),
    (SizeForm, "length"),
    (SchemaForm, "text"),
    (timedelta, "duration"),
    (datetime, "time"),
    (bool, "`true`, `false`"),
    (int, "number"),
    (float, "number"),
    (str, "text"),
    (Path, "path"),
    (Any, "any value"),
]
_REQUIRED = {"name": "the file's name", "fields": "those of the format; required with `json`"}
"""What keys that the models require have, where a declaration may leave them out."""

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def page() -> str:
    """The page as Markdown."""
    return whole_page(
        "Settings and declarations",
        "hourline_core/model",
        prose(_INTRODUCTION),
        _VALUES.strip(),
        *_part(2, "Sources", Source),
        *_part(3, _TITLES[Field], Field),
        *_part(3, _TITLES[EventTime], EventTime),
        *_part(3, _TITLES[TopicPattern], TopicPattern),
        *_part(3, _TITLES[Files], Files, prefix="files."),
        *_part(3, _TITLES[DeltaCommits], DeltaCommits, prefix="delta."),
        *_part(3, _TITLES[RecordFormat], RecordFormat, prefix="format."),
        *_part(4, _TITLES[AvroFormat], AvroFormat, prefix="avro."),
        *_part(4, _TITLES[CsvFormat], CsvFormat, prefix="csv."),
        *_part(4, _TITLES[TextFormat], TextFormat, prefix="text."),
        *_part(4, _TITLES[ProtobufFormat], ProtobufFormat, prefix="protobuf."),
        *_part(4, _TITLES[JsonFormat], JsonFormat, prefix="json."),
        *_part(3, _TITLES[Join], Join, prefix="join."),
        *_part(4, _TITLES[JoinSide], JoinSide),
        *_part(4, _TITLES[Within], Within, prefix="within."),
        *_part(3, _TITLES[Snapshot], Snapshot, prefix="snapshot."),
        *_part(3, _TITLES[Upsert], Upsert, prefix="upsert."),
        *_part(3, _TITLES[Volume], Volume, prefix="volume."),
        *_part(3, _TITLES[SourceFindings], SourceFindings, prefix="findings."),
        *(text for bound in (ShareBound, TimeBound, SizeBound) for text in _part(4, _TITLES[bound], bound)),
        *_part(2, "Lookups", Lookup),
        *_part(3, _TITLES[LookupColumn], LookupColumn),
        *_part(2, "Metrics", Metric),
        *_part(3, _TITLES[Measure], Measure, head="part"),
        *_part(3, _TITLES[UserMeasure], UserMeasure, head="part"),
        *_part(3, _TITLES[MetricWindow], MetricWindow, prefix="window."),
        *_part(3, _TITLES[SessionWindow], SessionWindow, prefix="window."),
        *_part(3, _TITLES[History], History),
        *_part(2, "Metrics over metrics", Rollup),
        *_part(2, "Sinks", Sink),
        *_part(3, _TITLES[Webhook], Webhook, prefix="webhook."),
        *_part(2, _TITLES[Expectation], Expectation, head="part"),
        *_part(2, "Tests of metrics", MetricTest),
        *_part(2, "Settings", Settings),
        *(text for name, section in _sections().items() for text in _part(3, name, section, prefix=f"{name}.")),
    )


def _part(level: int, title: str, model: type[Declaration], head: str = "key", prefix: str = "") -> list[str]:
    """What there is to say of one model."""
    hints = get_type_hints(model, include_extras=True)
    rows = [
        (code(prefix + (field.alias or name)), _type(hints[name]), _default(name, field), field.description or "")
        for name, field in model.model_fields.items()
    ]
    return [heading(level, title), prose(model.__doc__), table([head, "type", "default", "meaning"], rows)]


def _sections() -> dict[str, type[Declaration]]:
    """By name, the settings that are mappings with settings of their own."""
    hints = get_type_hints(Settings)
    # An optional one is a union with None.
    kinds = {name: [hints[name], *get_args(hints[name])] for name in Settings.model_fields}
    return {name: one for name, of in kinds.items() for one in of if _is_declaration(one)}


def _is_declaration(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Declaration)


def _type(hint: Any) -> str:
    """The type in words, with a link to the part that describes it."""
    for known, word in _WORDS:
        if hint == known:
            return word
    origin, arguments = get_origin(hint), get_args(hint)
    if _is_declaration(hint):
        sections = {section: name for name, section in _sections().items()}
        words = link("mapping", (_TITLES | sections)[hint])
    elif origin in (dict, list, tuple):
        word = "mapping" if origin is dict else "list"
        values = [get_args(one)[0] for one in arguments if get_origin(one) is Annotated]
        title = next((_TITLES[value] for value in values if value in _TITLES), None)
        words = link(word, title) if title else word
    elif origin is Literal:
        words = ", ".join(code(value) for value in arguments)
    elif origin is Annotated:
        words = _type(arguments[0])
    else:  # a union
        words = " or ".join(_type(one) for one in arguments if one is not type(None))
    return words


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return _REQUIRED.get(name, "required")
    match field.get_default(call_default_factory=True):
        case None | {} | [] | ():
            words = "none"
        case History(severity=value) | MetricWindow(size=value):
            words = code(value)
        case Bound() as bound:
            size = getattr(bound, bound.bound)
            shown = _duration(size) if isinstance(size, timedelta) else size
            words = f"{code(shown)}, {code(bound.model_dump()['severity'])}"
        case RecordFormat() as format:
            words = code(format.name)
        case Declaration():
            words = "none"
        case bool(value):
            words = code(str(value).lower())
        case timedelta() as value:
            words = code(_duration(value))
        case datetime() as value:
            words = code(f"{value:%Y-%m-%d}")
        case value:
            words = code(value)
    return words


def _duration(value: timedelta) -> str:
    """As declarations write it, in the largest unit that gives a whole number."""
    seconds = int(value.total_seconds())
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS if seconds % size == 0) if seconds else "0s"
