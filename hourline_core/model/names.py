"""The names that sources, metrics, fields, dimensions and measures may have. They become tables and columns."""

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from hourline_core.model.base import describe, refuse
from hourline_core.model.scratch_columns import RECORD, SCRATCH_PREFIX

LONGEST = 63
LOWER = r"^[a-z][a-z0-9_]*$"
ANY_CASE = r"^[A-Za-z_][A-Za-z0-9_]*$"

# Columns of the tables that Hourline writes itself.
RESERVED_COLUMNS = frozenset({"hour", "state", "sequence", "layer"})
# Views that the serving layer offers in addition to those of the metrics.
RESERVED_METRICS = frozenset(
    {
        "hours",
        "late_events",
        "drift",
        "quality",
        "publications",
        "long_silences",
        "windows",
        "findings",
        "changes",
        "hourline_snapshot",
    }
)
RESERVED_METRIC_STARTS = ("events_", "rejected_", "quarantine_")
RESERVED_METRIC_ENDS = ("_final", "_provisional", "_staged", "_states")


def is_column_name(text: str) -> bool:
    """Whether ``text`` has the form of a dimension's or measure's name."""
    return bool(re.fullmatch(LOWER, text)) and len(text) <= LONGEST


def _source_name(name: str) -> str:
    if not re.fullmatch(LOWER, name):
        raise refuse(
            f"got the name {describe(name)}, allowed are lower-case letters from a to z, digits and _, "
            "starting with a letter"
        )
    if len(name) > LONGEST:
        raise refuse(f"got a name of {len(name)} characters, allowed are {LONGEST}")
    return name


def _column_name(name: str) -> str:
    _source_name(name)
    if "__" in name:
        raise refuse(
            f"got the name {describe(name)}, allowed is one _ at a time (__ separates the state columns of a measure)"
        )
    if name in RESERVED_COLUMNS:
        raise refuse(
            f"got the name {describe(name)}, which Hourline uses itself: choose another than {_join(RESERVED_COLUMNS)}"
            f"{'; each result has its hour anyway' if name == 'hour' else ''}"
        )
    return name


def _derived_name(name: str) -> str:
    return _event_column(name, "")


def _field_name(name: str) -> str:
    return _event_column(name, f": give the field another name, as in `a_name: {{type: …, key: {name}}}`")


def _event_column(name: str, way_out: str) -> str:
    """``name`` if a column of events may have it. ``way_out`` ends the sentence if not."""
    if not re.fullmatch(ANY_CASE, name):
        allowed = "allowed are letters from a to z and A to Z, digits and _, not starting with a digit"
        raise refuse(f"got the name {describe(name)}, {allowed}{way_out}")
    if len(name) > LONGEST:
        raise refuse(f"got a name of {len(name)} characters, allowed are {LONGEST}{way_out}")
    # Spark tells columns apart without regard to case.
    if name.casefold() == RECORD:
        raise refuse(
            f"got the name {describe(name)}, "
            f"which means the Kafka record itself (record.key, record.timestamp, …){way_out}"
        )
    if name.casefold().startswith(SCRATCH_PREFIX):
        raise refuse(
            f"got the name {describe(name)}, allowed are names that do not begin with {SCRATCH_PREFIX}, "
            f"as Hourline's own columns do{way_out}"
        )
    return name


def _metric_name(name: str) -> str:
    _source_name(name)
    if name in RESERVED_METRICS or name.startswith(RESERVED_METRIC_STARTS) or name.endswith(RESERVED_METRIC_ENDS):
        starts = [f"{start}…" for start in RESERVED_METRIC_STARTS]
        ends = [f"…{end}" for end in RESERVED_METRIC_ENDS]
        reserved = ", ".join([*sorted(RESERVED_METRICS), *starts, *ends])
        raise refuse(f"got the name {describe(name)}, which Hourline uses itself: choose another than {reserved}")
    return name


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


SourceName = Annotated[str, AfterValidator(_source_name), WithJsonSchema({"type": "string", "pattern": LOWER})]
MetricName = Annotated[str, AfterValidator(_metric_name), WithJsonSchema({"type": "string", "pattern": LOWER})]
ColumnName = Annotated[str, AfterValidator(_column_name), WithJsonSchema({"type": "string", "pattern": LOWER})]
DerivedName = Annotated[str, AfterValidator(_derived_name), WithJsonSchema({"type": "string", "pattern": ANY_CASE})]
FieldName = Annotated[str, AfterValidator(_field_name), WithJsonSchema({"type": "string", "pattern": ANY_CASE})]


def refuse_same_names(**groups: Iterable[str]) -> None:
    """Raise if two names of a declaration are equal, apart from case."""
    seen: dict[str, str] = {}
    for group, names in groups.items():
        for name in names:
            earlier = seen.setdefault(name.casefold(), f"{group}.{name}")
            if earlier != f"{group}.{name}":
                raise refuse(
                    f"got the name {describe(name)}, "
                    f"allowed is each name once (upper and lower case are the same): see {earlier}",
                    group,
                    name,
                )
