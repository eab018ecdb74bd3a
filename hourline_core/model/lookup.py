"""A lookup: a table of somebody else, whose rows the expressions of sources and metrics name."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import pydantic
from pydantic import AfterValidator, BeforeValidator, StringConstraints, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.field_types import SPARK_TYPES, DecimalType, TypeTree, parse_type, spark_ddl
from hourline_core.model.fields import FieldType
from hourline_core.model.names import DerivedName, SourceName, refuse_same_names
from hourline_core.model.postgres_url import check_postgres_url, refuse_password
from hourline_core.model.times import Duration

TableKind = Literal["delta", "parquet", "csv", "duckdb", "postgresql", "source"]

RECORD_KEY, EVENT_TIME, VALID_TO = "record.key", "event_time", "valid_to"
"""The names of columns that a source has as a table, beside its fields: the key of the record, of the source's
``key_type``, and the times from which and until which a row is valid.
"""

_KEY_TYPES = ("string", "int", "long", "boolean", "date", "timestamp")
"""The types whose values each engine compares alike."""
_COLUMN_TYPES = (*(name for name in SPARK_TYPES if name != "json"), "decimal(p,s)")
_SHORTEST = timedelta(seconds=1)
_MOST_HELD = 5_000_000
_SOURCE = "source:"
_KEPT = timedelta(days=7)


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _column_type(text: str) -> str:
    tree = parse_type(text)
    if not isinstance(tree, DecimalType) and str(tree) not in _COLUMN_TYPES:
        raise refuse(f"got {describe(text)}, allowed are {', '.join(_COLUMN_TYPES)}")
    return text


def _table(address: str) -> str:
    # Before anything else: whoever parses it may take a part of the password for something that can be shown.
    refuse_password(address)
    written = address.partition(":")[0] if ":" in address else ""
    scheme = written.casefold()
    if scheme.partition("+")[0] in ("postgres", "mysql", "sqlite") or scheme.startswith("postgresql+"):
        raise refuse(
            f"got the scheme '{written}', allowed are a path, the URI of a Delta table, duckdb:, postgresql: and "
            "source:"
        )
    if scheme in ("postgresql", "duckdb", "source") and written != scheme:
        raise refuse(f"got the scheme '{written}', allowed is {scheme}: in lower case")
    if scheme == "postgresql":
        return check_postgres_url(address)
    if scheme == "duckdb" and not (
        urlsplit(address).path.strip("/") and parse_qs(urlsplit(address).query).get("table")
    ):
        raise refuse(f"got {describe(address)}, allowed is duckdb:PATH?table=NAME")
    if scheme == "source" and not address.removeprefix(_SOURCE):
        raise refuse(f"got {describe(address)}, allowed is source:NAME, with the name of a source of this project")
    return address


class LookupColumn(Declaration):
    """One column of a lookup. `name: type` is short for `name: {type: type}`."""

    type: Annotated[FieldType, AfterValidator(_column_type)]
    """The type: `string`, `int`, `long`, `float`, `double`, `boolean`, `decimal(p,s)`, `timestamp` or `date`."""

    column: Annotated[str, StringConstraints(min_length=1)] | None = None
    """The column's name in the table, if it differs."""

    @cached_property
    def tree(self) -> TypeTree:
        """The type, parsed."""
        return parse_type(self.type)

    @property
    def spark_type(self) -> str:
        """The type as Spark DDL."""
        return spark_ddl(self.tree)

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form: ``year: int`` stands for ``year: {type: int}``."""
        return {"type": value} if isinstance(value, str) else value


ColumnForm = Annotated[
    LookupColumn, BeforeValidator(LookupColumn.from_short_form, json_schema_input_type=FieldType | LookupColumn)
]


class Lookup(Declaration):
    """One lookup, as declared in ``lookups/NAME.yaml``."""

    name: SourceName
    """The lookup's name. If left out, the name of the file without its ending."""

    description: str | None = None
    """A description for people."""

    table: Annotated[str, AfterValidator(_table)]
    """The table: a file `….csv` or `….parquet` (`*` in its name means several), `duckdb:PATH?table=NAME`,
    `postgresql://USER@HOST:PORT/DATABASE?table=SCHEMA.NAME`, the folder or URI of a Delta table, or `source:NAME`.
    Paths are relative to the project. A CSV file has a header. Of a source, the newest event of each key is the row
    (KTable).
    """

    key: Annotated[tuple[DerivedName, ...], BeforeValidator(_one_or_more), pydantic.Field(min_length=1)]
    """The column, or list of columns, that an event finds its row by."""

    columns: Annotated[dict[DerivedName, ColumnForm], pydantic.Field(min_length=1)]
    """The columns that are read, with those of the key: `name: type`, or `name: {type: …, column: …}`."""

    valid_from: DerivedName | None = None
    """The column with the time from which a row is valid, if rows are valid at event time. Null: it always was. With
    `table: source:NAME`, allowed is `event_time`: each event is valid from its event time until that of the next one.
    """

    valid_to: DerivedName | None = None
    """The column with the time at which a row is no longer valid. Null: it still is."""

    nulls: tuple[str, ...] = ()
    """The texts in a CSV file that mean null, such as `[NA]`. An empty text without quotes always does."""

    refresh: Duration = timedelta(minutes=5)
    """How often the speed layer reads the table again. At least `1s`."""

    on_change: Literal["restate", "keep"] = "restate"
    """What a recompute takes for an event. `restate`: the newest version, so a changed row changes published hours.
    `keep`: the version that its micro-batch used, so an event keeps the row that it met when it was read.
    """

    keep: Duration | None = None
    """How long a version is kept after another one has replaced it. If left out, `7d`; with `on_change: keep`, for
    ever, since each recompute needs it. An hour that needs a version which is no longer kept is blocked.
    """

    on_duplicate: Literal["error", "first", "last"] = "error"
    """What happens if several rows have the same key. `error`: the refresh is refused, and the version before is used.
    `first` and `last`: this row of the file counts. Only files have an order of their rows.
    """

    most_rows: Annotated[int, pydantic.Field(ge=1)] = 1_000_000
    """The maximum number of rows. If the table has more, the refresh is refused. At most 5000000 for PostgreSQL and a
    source, whose rows a refresh holds in memory.
    """

    allow_empty: bool = False
    """Whether the table may have no row with a key. Otherwise a refresh without one is refused, as a broken file is."""

    most_changed_hours: Annotated[int, pydantic.Field(ge=1)] = 1_000
    """The maximum number of published hours that are recomputed by themselves because rows have changed that their
    events met. If there are more, they stay `stale` until a person recomputes them, or allows more.
    """

    @property
    def kind(self) -> TableKind:
        """What the table is."""
        for kind in ("duckdb", "postgresql", "source"):
            if self.table.startswith(f"{kind}:"):
                return kind
        ending = self.table.rpartition(".")[2].casefold()
        if ending == "csv":
            return "csv"
        return "parquet" if ending == "parquet" else "delta"

    @property
    def table_source(self) -> str | None:
        """The name of the source that is the table. None: it is another kind of table."""
        return self.table.removeprefix(_SOURCE) if self.kind == "source" else None

    @cached_property
    def declaration(self) -> str:
        """12 hexadecimal digits, equal for declarations whose rows have the same columns and the same meaning."""
        columns = {name: column.spark_type for name, column in self.columns.items()}
        content = json.dumps([columns, self.key, self.valid_from, self.valid_to])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def kept_for(self) -> timedelta | None:
        """How long a version is kept after it was replaced. None: for ever."""
        return self.keep or (_KEPT if self.on_change == "restate" else None)

    @property
    def names_in_table(self) -> Mapping[str, str]:
        """By column, its name in the table."""
        return {name: column.column or name for name, column in self.columns.items()}

    @property
    def key_in_table(self) -> Sequence[str]:
        """The columns of the key, by their names in the table."""
        return [self.names_in_table[name] for name in self.key]

    @property
    def is_valid_at_times(self) -> bool:
        """Whether the time of an event decides which row it finds."""
        return self.valid_from is not None or self.valid_to is not None

    @model_validator(mode="before")
    @classmethod
    def _add_validity(cls, given: Any) -> Any:
        """A source has no column for the end of a row: it is the event time of the next one."""
        if not (isinstance(given, dict) and str(given.get("table")).startswith(_SOURCE)):
            return given
        valid_from, valid_to, columns = (given.get(name) for name in ("valid_from", "valid_to", "columns"))
        if valid_to not in (None, VALID_TO):
            raise refuse("got it for a source, whose rows are valid until their next event: leave it out", "valid_to")
        if valid_from is None:
            return given
        if valid_from != EVENT_TIME:
            raise refuse(f"got {describe(valid_from)}, allowed is event_time for a source", "valid_from")
        if isinstance(columns, dict):
            for name in (EVENT_TIME, VALID_TO):
                if columns.get(name, "timestamp") not in ("timestamp", {"type": "timestamp", "column": None}):
                    raise refuse(
                        f"got '{name}', a time that valid_from adds: give the column another name", "columns", name
                    )
            columns = {**columns, EVENT_TIME: "timestamp", VALID_TO: "timestamp"}
        return {**given, "columns": columns, "valid_to": VALID_TO}

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        refuse_same_names(columns=self.columns)
        for path, name in (*(("key", name) for name in self.key), *self._validity):
            if name not in self.columns:
                raise refuse(f"got '{name}', which is not among the columns: {', '.join(self.columns)}", path)
        for name in self.key:
            if (of := self.columns[name].type) not in _KEY_TYPES:
                raise refuse(f"got '{name}' of type {of}, allowed are the types {', '.join(_KEY_TYPES)}", "key")
        for path, name in self._validity:
            if (of := self.columns[name].type) not in ("timestamp", "date"):
                raise refuse(f"got '{name}' of type {of}, allowed are timestamp and date", path)
            if name in self.key:
                raise refuse(f"got '{name}', which is in the key, allowed is another column", path)
        return self

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if self.refresh < _SHORTEST:
            raise refuse("got less than a second, allowed is at least 1s", "refresh")
        if self.on_duplicate != "error" and self.kind not in ("csv", "parquet"):
            raise refuse(
                f"got {self.on_duplicate}, allowed is error: the rows of this table have no order", "on_duplicate"
            )
        if self.on_duplicate != "error" and self.is_valid_at_times:
            raise refuse(
                f"got {self.on_duplicate}, allowed is error with valid_from or valid_to: several rows may have a key",
                "on_duplicate",
            )
        if self.most_rows > _MOST_HELD and self.kind in ("postgresql", "source"):
            raise refuse(
                f"got {self.most_rows}, allowed is at most {_MOST_HELD} for PostgreSQL and a source, whose rows a "
                "refresh holds in memory: export a larger table to Parquet or Delta",
                "most_rows",
            )
        if self.nulls and self.kind != "csv":
            raise refuse("got it for a table with types, allowed is it for a CSV file only", "nulls")
        return self

    @property
    def _validity(self) -> tuple[tuple[str, str], ...]:
        """The declared key and the column of each bound of validity."""
        bounds = (("valid_from", self.valid_from), ("valid_to", self.valid_to))
        return tuple((path, name) for path, name in bounds if name is not None)
