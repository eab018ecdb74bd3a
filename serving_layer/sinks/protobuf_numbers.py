"""The numbers of Protobuf's members: those that the newest registered schema has, as long as name and type stay.

Bytes name members by number alone. A number never means something else, so records of earlier schemas are read by the
newest one, and a registry takes it as compatible. https://protobuf.dev/programming-guides/proto3/#updating
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from hourline_core.errors import SinkError
from hourline_core.formats.registry.written_schema import WrittenSchema
from hourline_core.model.protobuf_schema import ProtobufCompilerError, ProtobufSchemaError, compile_protobuf


def message_before(newest: WrittenSchema | None, name: str) -> Any | None:
    """The description of the message ``name`` of a registered schema. None: it has none that a sink would write."""
    if newest is None or newest.kind != "PROTOBUF":
        return None
    try:
        main = FileDescriptorSet.FromString(compile_protobuf((("", newest.text), *newest.references.items()))).file[-1]
    except ProtobufCompilerError as error:
        raise SinkError(str(error)) from None
    except ProtobufSchemaError:
        return None
    return next((one for one in main.message_type if one.name == name and _is_ours(one)), None)


def keep_numbers(message: Any, before: Any | None) -> bool:
    """Give the members of ``message`` the numbers that they have in ``before``. The other numbers of that are reserved.
    The messages in it that are gone stay, since a registry refuses a schema that lacks one.

    Returns whether a member has stayed. If none has, ``message`` is another one, such as a list with other elements.
    """
    if before is None:
        return False
    messages = {one.name: one for one in before.nested_type if not one.options.map_entry}
    stayed: dict[str, bool] = {}
    for nested in message.nested_type:
        if nested.options.map_entry:  # It is behind the message of the values.
            stayed[nested.name] = all(stayed.values())
        else:
            stayed[nested.name] = keep_numbers(nested, messages.pop(nested.name, None))
    numbers = {_content(field): field.number for field in before.field}
    last = max([0, *numbers.values(), *(reserved.end - 1 for reserved in before.reserved_range)])
    message.reserved_range.extend(before.reserved_range)
    has_stayed = False
    for field in message.field:
        is_same = field.type_name.startswith(".google.") or stayed.get(field.type_name.rpartition(".")[2], True)
        if is_same and _content(field) in numbers:
            field.number = numbers.pop(_content(field))
            has_stayed = True
        else:
            field.number = last = last + 1
    for number in sorted(numbers.values()):
        message.reserved_range.add(start=number, end=number + 1)
    message.nested_type.extend(messages.values())
    return has_stayed


def _content(field: Any) -> tuple[Any, ...]:
    """What a number means: the name and type of a member."""
    return field.name, field.type, field.type_name, field.label, field.proto3_optional


def _is_ours(message: Any) -> bool:
    """Whether ``message`` has nothing that a sink does not write."""
    alone = sum(field.proto3_optional for field in message.field)
    is_plain = not message.enum_type and not message.extension and len(message.oneof_decl) == alone
    return is_plain and all(_is_ours(one) for one in message.nested_type)
