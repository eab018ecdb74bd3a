"""How messages are read: by the schema that they were written by, with the names of another one.

Members are the same if they have the same number, as everywhere in Protobuf: https://protobuf.dev/programming-guides/proto3/#updating.
The schema that a message was written by says what its bytes mean. So its types and defaults count. The schema of the
source gives the names, and the defaults of members that the first one does not have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hourline_core.model.protobuf_schema import is_map


@dataclass(eq=False, slots=True)
class MessageView:
    """How a message is read. It may have itself as a part, so its members are added after it is made."""

    message: Any
    """Its descriptor in the schema that it was written by."""
    members: "tuple[MemberView, ...]" = ()


@dataclass(frozen=True, eq=False, slots=True)
class MemberView:
    """How a member of a message is read."""

    name: str
    field: Any
    """Its descriptor in the schema that the message was written by. If that has none, in the schema of the source."""
    message: MessageView | None = None
    """How its values are read, if they are messages. Those of a map are meant."""
    read_as: Any = field(default=None)
    """The descriptor of its values in the schema of the source. None: it is read as it was written."""
    is_written: bool = True
    """Whether the schema that the message was written by has it."""
    is_required: bool = False
    """Whether the schema of the source says that it has to be there."""

    @property
    def value(self) -> Any:
        """The descriptor of its values: of a map, those in its entries."""
        return _value(self.field)

    @property
    def names(self) -> Mapping[int, str]:
        """The names of an enum by number. Of several names of a number, the first one is that of Protobuf's JSON."""
        written = _names(self.value)
        if self.read_as is None or not self.read_as.enum_type:
            return written
        read = _names(self.read_as)
        taken = {value.name for value in self.read_as.enum_type.values}
        return {number: name for number, name in written.items() if name not in taken} | read


def view_alone(message: Any) -> MessageView:
    """A view of ``message``, a descriptor, as it was written."""
    return _Views().of(message, None)


def view_as(writer: Any, reader: Any) -> MessageView:
    """A view of the message ``writer``, a descriptor, as ``reader``, that of the source."""
    return _Views().of(writer, reader)


class _Views:
    def __init__(self) -> None:
        self._views: dict[tuple[str, str | None], MessageView] = {}

    def of(self, writer: Any, reader: Any) -> MessageView:
        pair = writer.full_name, reader and reader.full_name
        if pair in self._views:
            return self._views[pair]
        view = self._views[pair] = MessageView(writer)
        if reader is None:
            view.members = tuple(self._alone(one) for one in writer.fields)
        else:
            written = writer.fields_by_number
            view.members = tuple(
                self._as(written[one.number], one)
                if one.number in written
                else self._alone(one, is_written=False, is_required=one.is_required)
                for one in reader.fields
            )
        return view

    def _alone(self, written: Any, **more: bool) -> MemberView:
        return MemberView(written.name, written, self._of_value(_value(written), None), **more)

    def _as(self, written: Any, read: Any) -> MemberView:
        is_alike = (written.is_repeated, is_map(written)) == (read.is_repeated, is_map(read))
        read_as = _value(read) if is_alike else None
        message = self._of_value(_value(written), read_as and read_as.message_type)
        return MemberView(read.name, written, message, read_as, is_required=read.is_required)

    def _of_value(self, value: Any, reader: Any) -> MessageView | None:
        return self.of(value.message_type, reader) if value.message_type else None


def _value(of: Any) -> Any:
    return of.message_type.fields_by_name["value"] if is_map(of) else of


def _names(value: Any) -> dict[int, str]:
    return {one.number: one.name for one in reversed(value.enum_type.values)}
