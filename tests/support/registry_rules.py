"""What a registry refuses as not backward compatible, by Confluent's rules as far as schemas of sinks need them.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/schema-evolution.html
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from hourline_core.model.protobuf_schema import compile_protobuf


def find_conflict(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Why a registered schema cannot be followed by another one. None: it can."""
    kinds = {schema.get("schemaType", "AVRO") for schema in (before, now)}
    if len(kinds) > 1:
        return "the type of the schema has changed"
    match kinds.pop():
        case "PROTOBUF":
            found = _of_protobuf(*(dict(_messages(schema["schema"])) for schema in (before, now)))
        case "JSON":
            found = _of_json(json.loads(before["schema"]), json.loads(now["schema"]), "#")
        case _:
            found = iter(())
    return next(found, None)


def _messages(text: str) -> Iterator[tuple[str, Any]]:
    waiting = [("", one) for one in FileDescriptorSet.FromString(compile_protobuf((("", text),))).file[-1].message_type]
    while waiting:
        path, message = waiting.pop()
        waiting += [(f"{path}.{message.name}", one) for one in message.nested_type if not one.options.map_entry]
        yield f"{path}.{message.name}", message


def _of_protobuf(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for path, message in before.items():
        if path not in now:
            yield f"message {path} was removed"
            continue
        fields = {field.number: field for field in now[path].field}
        for field in message.field:
            other = fields.get(field.number, field)
            if (field.type, field.type_name, field.label) != (other.type, other.type_name, other.label):
                yield f"the type of field {field.number} of {path} has changed"


def _of_json(before: Mapping[str, Any], now: Mapping[str, Any], path: str) -> Iterator[str]:
    earlier, types = ({one["type"]} if isinstance(one["type"], str) else set(one["type"]) for one in (before, now))
    if not earlier <= types | ({"integer"} if "number" in types else set()):
        yield f"the type of {path} has changed"
    if set(now.get("required", ())) - set(before.get("required", ())):
        yield f"{path} requires more"
    properties, known = now.get("properties", {}), before.get("properties", {})
    for name in known:
        if name in properties:
            yield from _of_json(known[name], properties[name], f"{path}/{name}")
        elif now["additionalProperties"] is False:
            yield f"property {name} was removed from the closed {path}"
    if known and before["additionalProperties"] is not False and set(properties) - set(known):
        yield f"a property was added to the open {path}"
    for name in ("items", "additionalProperties"):
        if isinstance(before.get(name), dict) and isinstance(now.get(name), dict):
            yield from _of_json(before[name], now[name], f"{path}/{name}")
