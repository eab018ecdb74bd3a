"""Schema resolution: a record that was written by one schema, as another one of its source sees it.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution. Promotions, such as of int to long, are up to the
declared types of fields.
"""

from hourline_core.model.avro_defaults import default_of
from hourline_core.model.record_types import (
    MISSING,
    Array,
    Constant,
    Map,
    Member,
    Primitive,
    Record,
    RecordType,
    Union,
)


def resolve(writer: Record, reader: Record) -> Record:
    """``writer`` with the names that ``reader`` has for its members, and with the defaults of those that it lacks.

    Members of ``reader`` without a default that ``writer`` lacks are left out.
    """
    return _Resolving().record(writer, reader)


class _Resolving:
    def __init__(self) -> None:
        self._records: dict[tuple[int, int], Record] = {}

    def record(self, writer: Record, reader: Record) -> Record:
        pair = (id(writer), id(reader))
        if pair in self._records:
            return self._records[pair]
        resolved = self._records[pair] = Record(writer.name)
        written = {member.name: member for member in writer.members}
        readers = {}
        for member in reader.members:
            name = next((name for name in (member.name, *member.aliases) if name in written), None)
            if name is not None:
                readers[name] = member
        members = []
        for member in writer.members:
            as_read = readers.get(member.name)
            kind = self._resolve(member.type, as_read.type) if as_read else member.type
            members.append(Member(as_read.name if as_read else member.name, kind))
        lacking = [member for member in reader.members if member not in readers.values()]
        members += [
            Member(member.name, Constant(member.type, default_of(member.type, member.default)))
            for member in lacking
            if member.default is not MISSING
        ]
        resolved.members = tuple(members)
        return resolved

    def _resolve(self, writer: RecordType, reader: RecordType) -> RecordType:
        if isinstance(writer, Union):
            branches = reader.branches if isinstance(reader, Union) else (reader,)
            return Union(tuple(self._resolve(one, _match(one, branches)) for one in writer.branches))
        match writer, _match(writer, reader.branches) if isinstance(reader, Union) else reader:
            case Record(), Record() as other:
                return self.record(writer, other)
            case Array(element), Array(other_element):
                return Array(self._resolve(element, other_element))
            case Primitive("bytes" | "string"), Primitive("bytes" | "string") as other:
                # Both are written in the same way, and are promoted to each other.
                return other
            case Map(value), Map(other_value):
                return Map(self._resolve(value, other_value))
        return writer


def _match(writer: RecordType, branches: tuple[RecordType, ...]) -> RecordType:
    """The one of ``branches`` that stands for ``writer``, by its name or an alias; if there is none, ``writer``."""
    same = [branch for branch in branches if type(branch) is type(writer)]
    by_name = [one for one in same if str(one) == str(writer)]
    aliased = [one for one in same if isinstance(writer, Record) and writer.name in getattr(one, "aliases", ())]
    return next(iter([*by_name, *aliased, *same]), writer)
