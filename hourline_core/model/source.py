"""A source: typed events with an event time and, optionally, a unique id. They come from one or more Kafka topics, from
files or a Delta table, or are derived from other sources: joined of two, or the rows of one as a table.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, TypeAdapter, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.event_time import EventTime, EventTimeForm
from hourline_core.model.expectation import Expectation, ExpectationForm, refuse_windows
from hourline_core.model.expressions import Expression, column_names, named_column
from hourline_core.model.field_types import ONLY_NESTED, ArrayType
from hourline_core.model.fields import Field, FieldForm
from hourline_core.model.files import DeltaCommits, Files
from hourline_core.model.finding_bounds import SourceFindings, severity_of
from hourline_core.model.join import Join
from hourline_core.model.lookup import Lookup
from hourline_core.model.names import DerivedName, FieldName, SourceName, refuse_same_names
from hourline_core.model.record_format import RecordFormat, RecordFormatForm
from hourline_core.model.registry import RegistryAccess
from hourline_core.model.snapshot import Snapshot
from hourline_core.model.source_lookup import SourceLookups, refuse_unfit
from hourline_core.model.table import Table
from hourline_core.model.times import Duration, Moment
from hourline_core.model.topics import RetentionForm, TopicForm, matches
from hourline_core.model.upsert import Upsert
from hourline_core.model.volume import Volume

_EARLIEST_EPOCH = datetime(1971, 1, 1, tzinfo=UTC)
"""The default bound of numbers since 1970. Today's seconds, read as milliseconds, lie in January 1970."""

_OF_RECORDS = (
    *("topic", "branch", "format", "raw", "key_type", "fields", "explode", "event_time"),
    *("earliest", "latest", "ahead", "on_recreate", "partitions", "retention"),
)
"""The keys that are about records of topics, which a derived source does not read."""

_OF_TOPICS = ("topic", "branch", "key_type", "on_recreate", "partitions", "retention")
"""The keys that are about topics, which a source of files does not read."""

_OF_FILES = ("files", "delta")
"""The keys of which a source of files has one."""

DERIVATIONS = ("join", "snapshot", "upsert")
"""The keys of which a derived source has one."""

_NOT_TAKEN_BACK = {
    "id": "whose events that may be taken back have an id of their own: leave id out",
    "idle": "which waits for the clock of each input: declare idle there",
}
"""The keys that a source has not whose events may be taken back, and what to do."""


def _explode(value: Any) -> Any:
    allowed = "allowed is one `name: expression`, such as `item: items`"
    if isinstance(value, str):
        raise refuse(f"got {describe(value)}, {allowed}: give its elements a name, as in `a_name: {value}`")
    if isinstance(value, dict) and len(value) > 1:
        raise refuse(f"got {len(value)} names, {allowed}; for two arrays, explode one, such as arrays_zip(a, b)")
    return value


class Source(Declaration):
    """One source, as declared in ``sources/NAME.yaml``."""

    name: SourceName
    """The source's name. If left out, the name of the file without its ending."""

    description: str | None = None
    """A description for people."""

    topic: TopicForm | None = None
    """The Kafka topic of the events. A list names several topics. `{pattern: …}` is a regular expression, and means all
    topics whose whole name matches, also topics that are created later. Hourline creates a named topic if it is
    missing. Each source has a `topic`, reads `files` or a `delta` table, or is a `join`, a `snapshot` or an `upsert`.
    """

    join: Join | None = None
    """Two sources whose events are joined, or one that is joined with itself, in place of a `topic`. The fields are
    those of both, each with the name of its source in front, or that of `as`: `orders_amount`. `orders_event_time` is
    the event time of the event of `orders`. The event time of a pair is the later one of both. Keys about records, such
    as `fields` and `event_time`, are not allowed beside it.
    """

    snapshot: Snapshot | None = None
    """A source whose rows at the end of each hour are the events, in place of a `topic`. It is taken as a table: the
    newest event of each key is the row. The fields are the key and the columns, with their names there,
    `snapshot_time`, the end of the hour, and the event time of the row, such as `orders_event_time`. Keys about
    records, such as `fields` and `event_time`, are not allowed beside it.
    """

    upsert: Upsert | None = None
    """A source of whose events the newest version of each key counts, in place of a `topic`. Older versions are taken
    back, at their own event time. The fields are the key and the columns, with their names there, and the event time of
    the version, such as `payments_event_time`. Keys about records, such as `fields` and `event_time`, are not allowed
    beside it.
    """

    files: Files | None = None
    """A folder that files arrive in, in place of a `topic`. Each file is read once. Its rows are records, as those of
    `hourline import`, and the name of the file is their topic. Keys about topics, such as `branch`, are not allowed
    beside it.
    """

    delta: DeltaCommits | None = None
    """A Delta table, in place of a `topic`. Each commit is read once. Otherwise as `files`."""

    branch: Expression | None = None
    """The condition, over the declared fields and `record`, under which the source takes a record. `otherwise` takes
    all records that no other source of the topic takes. Other records are not archived. If several sources read a
    topic, each needs a `branch`.
    """

    format: RecordFormatForm = RecordFormat()
    """The format of a record's value: `json`, which is one JSON object, or one that says what a record holds, such as
    `avro: {schema: orders.avsc}` or `csv: {columns: [id, at]}`. [Formats](formats.md) says what each of them takes.
    """

    raw: bool = True
    """Whether the archive keeps the bytes of each record, also of undeclared fields. Without them, records that were
    archived cannot be decoded anew: what is declared later counts from then on only.
    """

    key_type: Literal["binary", "string", "int", "long"] = "binary"
    """The type of the record's key, as Kafka's serializers write it: the bytes themselves, UTF-8 text, or a big-endian
    number. In expressions, it is `record.key`. A record whose key is not of this type is rejected.
    """

    fields: Annotated[dict[FieldName, FieldForm], pydantic.Field(min_length=1)]
    """The fields of an event: `name: type`, or `name: {type: …, required: true, key: …}`. Undeclared fields are kept in
    the record's bytes, so that they can be declared later. If the format has a schema, the fields may be left out: they
    are the members of its record. Without them, each column of `csv` and each group of `text` is a `string`.
    """

    explode: Annotated[dict[DerivedName, Expression], BeforeValidator(_explode)] = pydantic.Field(default={})
    """How a record becomes several events (flatMap): `name: expression`. The expression, over the fields and `record`,
    gives an array. Each element becomes an event, with the element in its field `name`. The fields that the expression
    uses are not kept in the events.
    """

    event_time: EventTimeForm
    """The time at which an event happened: an expression, or `{expression: …, encoding: …, zone: …}`."""

    id: Expression | None = None
    """The expression that identifies an event. If events in the same hour share an id, only the first counts."""

    id_horizon: Duration = timedelta(days=1)
    """The span of event time in which the speed layer recognises duplicates. An older duplicate counts until its hour
    is recomputed.
    """

    lookups: SourceLookups = pydantic.Field(default={})
    """The lookups whose rows expressions may name: `name: key`, or `name: {lookup: …, key: …}`. The row that an event
    finds is a struct: with `plane: tail_number`, `plane.manufacturer` is a column of it. Without a row, it is null.
    """

    derived: dict[DerivedName, Expression] = pydantic.Field(default={})
    """Fields that are computed from the declared ones, and from rows of lookups: `name: expression`."""

    where: Expression | None = None
    """The condition, over fields and derived fields, that an event must fulfil to count. Other events are archived, and
    count in no metric.
    """

    expectations: list[ExpectationForm] = pydantic.Field(default=[])
    """Expectations that an hour's events must fulfil before any metric over them is published."""

    volume: Volume = Volume()
    """The expectations on the number of events in an hour, and on the shares of late, duplicate and rejected ones. Past
    days and silence are also checked, unless this is turned off.
    """

    findings: SourceFindings = SourceFindings()
    """What opens a finding about the source. A finding is about its records as they arrive, and belongs to no hour."""

    clock: Literal["event_time", "wall"] = "event_time"
    """The clock that closes hours. `event_time`: the highest accepted event time of each partition, and the minimum of
    these over the partitions. `wall`: the machine's time.
    """

    idle: Duration | None = None
    """The time after which a partition without records no longer holds the clock, such as `15m`. If no partition has
    records, the clock continues at the speed of wall time. If left out, each partition holds the clock until its next
    record. At least `1m`.
    """

    skew: Duration = timedelta(0)
    """The maximum time by which the clock may be ahead of a record's arrival. Declare it if the clocks of producers are
    fast.
    """

    grace: Duration = timedelta(hours=1)
    """The time between the end of an hour and its close, by the source's clock. A closed hour is recomputed."""

    ahead: Duration = timedelta(days=1)
    """The maximum time by which an event time may be ahead of the record's arrival. A record beyond it is rejected."""

    earliest: Moment | None = None
    """The earliest event time that is allowed. A record with an earlier one is rejected. The default is 1971-01-01 for
    the encodings `epoch_seconds` and `epoch_milliseconds`: today's seconds, read as milliseconds, are earlier. Other
    encodings have no default.
    """

    latest: Moment | None = None
    """The exclusive upper bound of event times. A record with this event time or a later one is rejected."""

    on_recreate: Literal["stop", "continue"] = "stop"
    """What happens if a topic is deleted and recreated. `stop`: the source stops until `hourline reset` sets where to
    continue. `continue`: the new topic is read from its beginning. Its records are new records, so events that are sent
    again count again, unless `id` identifies them.
    """

    partitions: Annotated[int, pydantic.Field(ge=1)] = 1
    """The number of partitions of each topic that Hourline creates."""

    retention: RetentionForm | None = None
    """How long Kafka keeps the records of each topic that Hourline creates: a duration, such as `14d`, or `forever`.
    Kafka uses the timestamps of the records. The default is the retention of the broker; the embedded Kafka keeps
    records for ever.
    """

    _declared: Mapping[str, Lookup] = pydantic.PrivateAttr(default_factory=dict)
    _inputs: tuple["Source", ...] = pydantic.PrivateAttr(default=())

    def bind_inputs(
        self, inputs: Sequence["Source"], fields: Mapping[str, Field], event_time: str, id: str | None = None
    ) -> Self:
        """The derived source with what its ``inputs`` give: the fields, the expression of its event time, and that of
        its id, if it has one by itself.
        """
        given = {"fields": fields, "event_time": EventTime(expression=event_time), **({"id": id} if id else {})}
        bound = self.model_copy(update=given)
        bound._inputs = tuple(inputs)
        return bound

    @property
    def takes_back(self) -> bool:
        """Whether events may be taken back. In a left or full join, a partner may come or go. A late event may
        replace the row of a snapshot, and a newer version that of an upsert. Pairs of such events go with them. An
        event whose ``id`` comes again in its hour was taken back then, and does not count.
        """
        if self.join:
            return self.join.type != "inner" or self.inputs_take_back
        return self.table is not None

    @property
    def inputs_take_back(self) -> bool:
        """Whether events of an input may be taken back, so that joined ones are, too. The source is bound."""
        return any(source.takes_back for source in self._inputs)

    @property
    def table(self) -> Table | None:
        """What takes another source as a table: a snapshot, or an upsert."""
        return self.snapshot or self.upsert

    @property
    def derivation(self) -> str:
        """The key that says how a derived source is made. Empty: it reads topics."""
        return next((key for key in DERIVATIONS if getattr(self, key) is not None), "")

    @property
    def is_derived(self) -> bool:
        """Whether its events are made of those of other sources. Otherwise, they are read from topics."""
        return bool(self.derivation)

    @property
    def reads_files(self) -> bool:
        """Whether its records are rows of files that arrive, or of a Delta table."""
        return self.files is not None or self.delta is not None

    @property
    def place(self) -> str | None:
        """The folder of the files, or of the Delta table. None: it reads none."""
        return self.files.folder if self.files else self.delta.table if self.delta else None

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the sources that a derived one is made of. Empty: it reads topics."""
        if self.join:
            return self.join.inputs
        return (self.table.of,) if self.table else ()

    @property
    def origin_text(self) -> str:
        """What a source without topics is, for messages: ``joined of 'orders' and 'payments'``, or ``read from the
        folder arrivals``.
        """
        if self.reads_files:
            return f"read from the {'folder' if self.files else 'Delta table'} {self.place}"
        inputs = " and ".join(f"'{name}'" for name in self.input_names)
        return f"{'joined' if self.join else self._what} of {inputs}"

    @property
    def _what(self) -> str:
        if self.join:
            return f"a {self.join.type} join"
        return "a snapshot" if self.snapshot else "an upsert"

    @property
    def remembers_ids(self) -> bool:
        """Whether the speed layer recognises an event whose ``id`` was there before, which it remembers for that."""
        return self.id is not None and not self.takes_back

    @property
    def inputs(self) -> tuple["Source", ...]:
        """The sources that a derived one is made of, once it is bound; the same one twice if it is joined with itself.
        Empty: it reads topics.
        """
        return self._inputs

    def bind_lookups(self, declared: Mapping[str, Lookup]) -> Self:
        """The source with the declarations of its lookups, which ``declared`` has by their names."""
        bound = self.model_copy()
        bound._declared = {name: declared[self.lookup_name(name)] for name in self.lookups}
        return bound

    def bind_registry(self, access: RegistryAccess) -> Self:
        """The source with the registry that has the schemas of its records, if they name any."""
        if not self.format.uses_registry:
            return self
        return self.model_copy(update={"format": self.format.bind_registry(access)})

    def reads(self, name: str) -> bool:
        """Whether it reads the topic called ``name``; of a derived source, whether that is one of its inputs."""
        return name in self.input_names if self.is_derived else matches(self.topic, name)

    def lookup_name(self, name: str) -> str:
        """The name of the lookup that expressions of the source call ``name``."""
        return self.lookups[name].lookup or name

    def lookup_of(self, name: str) -> Lookup:
        """The lookup that expressions of the source call ``name``. The source is bound."""
        return self._declared[name]

    def refuse_unfit(self, expectations: Sequence[Expectation]) -> None:
        """Raise a refusal of the first expectation that a source cannot have."""
        refuse_windows(expectations, "a source has no windows; a metric over it may have it")

    @property
    def field_names(self) -> frozenset[str]:
        """The names of the fields of an event, declared and derived, in lower case."""
        return frozenset(name.casefold() for name in (*self.event_fields, *self.derived))

    @property
    def event_fields(self) -> tuple[str, ...]:
        """The fields that an event has and the archive keeps: the declared ones, and the element of ``explode``.

        Those that ``explode`` names are left out: an array of n elements would be archived n times.
        """
        read = frozenset[str]().union(*map(column_names, self.explode.values()))
        return (*(name for name in self.fields if name.casefold() not in read), *self.explode)

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields of an event that are never null."""
        return tuple(name for name in self.event_fields if name in self.fields and self.fields[name].required)

    def type_of(self, name: str) -> str | None:
        """The type of a field of its events. That of an exploded element is known if `explode` merely names an array of
        such a type. None: only Spark knows it.
        """
        if name in self.fields:
            return self.fields[name].type
        array = named_column(self.explode[name])
        trees = [field.tree for of, field in self.fields.items() if of.casefold() == array]
        elements = [str(tree.element) for tree in trees if isinstance(tree, ArrayType)]
        return next((element for element in elements if element not in ONLY_NESTED), None)

    @property
    def first_time(self) -> datetime | None:
        """The earliest event time that is allowed (UTC), declared or by default. None: there is no bound."""
        is_epoch = self.event_time.encoding.startswith("epoch")
        return self.earliest or (_EARLIEST_EPOCH if is_epoch else None)

    @model_validator(mode="before")
    @classmethod
    def _refuse_records(cls, value: Any) -> Any:
        """Refuse the keys that a source of files has not, or a derived one. The inputs of the latter give what these
        would say: until it is bound, there are stand-ins.
        """
        if not isinstance(value, dict):
            return value
        given = [key for key in (*DERIVATIONS, *_OF_FILES) if value.get(key) is not None]
        if not given:
            return value
        if len(given) > 1:
            raise refuse(f"got it beside `{given[0]}`, allowed is one of them", given[1])
        if given[0] in _OF_FILES:
            # The files of a Delta table are Parquet.
            for key in (*_OF_TOPICS, *(["format"] if given[0] == "delta" else [])):
                if value.get(key) is not None:
                    raise refuse(f"got it beside `{given[0]}`, which reads no topic: leave {key} out", key)
            return value
        for key in _OF_RECORDS:
            if value.get(key) is not None:
                raise refuse(
                    f"got it beside `{given[0]}`, whose events are made of those of its inputs: leave {key} out", key
                )
        return {**value, "raw": False, "fields": {"derived": "string"}, "event_time": "derived"}

    @model_validator(mode="before")
    @classmethod
    def _take_fields_of_schema(cls, value: Any) -> Any:
        """Without ``fields``, take those that follow from the schema. What is wrong with the format is told later."""
        if not isinstance(value, dict) or value.get("fields") is not None or value.get("format") is None:
            return value
        try:
            format = TypeAdapter(RecordFormatForm).validate_python(value["format"])
        except pydantic.ValidationError:
            # So that the format alone is told.
            return {**value, "fields": {"unknown": "string"}}
        if format.name == "json" and format.uses_registry:
            raise refuse(
                "got no fields, and none follow from the schemas of JSON in a registry; declare them, "
                "`fields: {name: type}`",
                "fields",
            )
        fields = format.fields
        readable = {name: kind for name, kind in fields.items() if kind is not None}
        return {**value, "fields": readable} if readable else value

    @model_validator(mode="after")
    def _refuse_beside_taken_back(self) -> Self:
        if not self.takes_back:
            return self
        for key, way_out in _NOT_TAKEN_BACK.items():
            if getattr(self, key) is not None:
                raise refuse(f"got it beside {self._what}, {way_out}", key)
        if self.volume.duplicates is not None:
            raise refuse(
                f"got it beside {self._what}, whose events that are taken back count as duplicates: leave it out",
                "volume",
                "duplicates",
            )
        return self

    @model_validator(mode="after")
    def _refuse_wall_clock(self) -> Self:
        timed = bool(self.join and self.join.longest_wait)
        if self.clock == "wall" and (self.takes_back or timed):
            what = self._what if self.takes_back else "the event_time of a join"
            waits = "whose hours wait for partners" if self.join else "whose hours wait for the clock of its input"
            raise refuse(f"got wall beside {what}, {waits}: leave it out", "clock")
        return self

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if self.topic is None and not self.is_derived and not self.reads_files:
            raise refuse(
                "is missing: allowed is the name of a Kafka topic, `files` or a `delta` table, a `join` of two "
                "sources, or a `snapshot` or `upsert` of one",
                "topic",
            )
        return self

    @model_validator(mode="after")
    def _check_fields_of_format(self) -> Self:
        self.format.refuse_unknown(self.fields)
        return self

    @model_validator(mode="after")
    def _check_names_and_times(self) -> Self:
        refuse_same_names(fields=self.fields, explode=self.explode, lookups=self.lookups, derived=self.derived)
        refuse_unfit(self.lookups, self.id, self.derived)
        if self.latest is not None and self.first_time is not None and self.latest <= self.first_time:
            raise refuse(
                f"got {self.latest.isoformat()}, allowed is a time after earliest, {self.first_time.isoformat()}",
                "latest",
            )
        return self

    @model_validator(mode="after")
    def _check_expectations(self) -> Self:
        self.refuse_unfit(self.expectations)
        return self

    @model_validator(mode="after")
    def _check_findings(self) -> Self:
        """Refuse a bound that can never be exceeded."""
        never = {
            "duplicates": (self.id is None, "the source declares no id, so no duplicate is recognised"),
            "remembered_ids": (not self.remembers_ids, "the source declares no id, so none is remembered"),
            "taken_by_none": (self.branch is None, "the source declares no branch, so it takes every record"),
            "held_clock": (self.clock == "wall", "with clock: wall, no record holds the clock"),
            "overdue_hours": (self.clock == "wall", "with clock: wall, each hour closes in time"),
            "silent_partition": (
                self.idle is not None or self.clock == "wall",
                "no partition holds the clock without records: idle_partition has the bound",
            ),
            "idle_partition": (self.idle is None, "the source declares no idle: silent_partition has the bound"),
        }
        for kind in sorted(self.findings.model_fields_set):
            unfit, why = never.get(kind, (False, ""))
            if unfit and severity_of(self.findings, kind) != "off":
                raise refuse(f"got a bound that nothing can exceed: {why}; leave it out", "findings", kind)
        return self

    @model_validator(mode="after")
    def _check_idle(self) -> Self:
        if self.idle is not None and self.idle < timedelta(minutes=1):
            raise refuse(f"got {self.idle.total_seconds():g}s, allowed is at least 1m", "idle")
        if self.idle is not None and self.clock == "wall":
            raise refuse("got it with clock: wall, allowed with clock: event_time only", "idle")
        return self
