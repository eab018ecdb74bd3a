"""A schema of Avro with those that it refers to, as one schema: each is declared where its name is first used."""

import json
from collections.abc import Mapping
from typing import Any

from hourline_core.model.avro_schema import AvroSchemaError, parse_avro

_NAMED = ("record", "error", "enum", "fixed")


def as_one_schema(text: str, references: Mapping[str, str]) -> str:
    """The schema ``text`` with the types of ``references``, which are texts of schemas, as JSON for people.

    Raises AvroSchemaError if it is not valid, is not that of a record, or cannot be one schema.
    """
    parse_avro(text, references)
    try:
        whole = json.dumps(_Inlining(references).schema(json.loads(text), ""), indent=2, ensure_ascii=False)
        parse_avro(whole)
    except (AttributeError, KeyError, TypeError, AvroSchemaError) as error:
        raise AvroSchemaError(f"got references that cannot be declared within one schema: {error}") from None
    return f"{whole}\n"


class _Inlining:
    """One pass over a schema that is valid."""

    def __init__(self, references: Mapping[str, str]) -> None:
        declared = [json.loads(text) for text in references.values()]
        self._referenced = {_full_name(one, "")[0]: one for one in declared}
        """Those that are not declared yet, by their names with namespaces."""

    def schema(self, schema: Any, namespace: str) -> Any:
        """``schema``, which is within ``namespace``, with what it names."""
        match schema:
            case str():
                return self._by_name(schema, namespace)
            case list():
                return [self.schema(one, namespace) for one in schema]
            case {"type": str(kind)} if kind in _NAMED:
                _, inner = _full_name(schema, namespace)
                fields = [self._part(one, "type", inner) for one in schema.get("fields", [])]
                return {**schema, "fields": fields} if fields else schema
        return self._part(schema, {"array": "items", "map": "values"}.get(str(schema["type"]), "type"), namespace)

    def _part(self, schema: dict[str, Any], key: str, namespace: str) -> dict[str, Any]:
        return {**schema, key: self.schema(schema[key], namespace)}

    def _by_name(self, name: str, namespace: str) -> Any:
        for full in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if referenced := self._referenced.pop(full, None):
                # Within another type, its namespace would be that type's.
                own = {} if "." in referenced["name"] else {"namespace": full.rpartition(".")[0]}
                return self.schema({**referenced, **own}, "")
        return name


def _full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """The name of a type with its namespace, and the namespace of names within it."""
    name, own = schema["name"], schema.get("namespace", namespace)
    full = name if "." in name or not own else f"{own}.{name}"
    return full, full.rpartition(".")[0]
