"""JSON Schema of the declaration files, for the YAML support of editors."""

from typing import Any

from pydantic.json_schema import models_json_schema

from hourline_core.model.base import Declaration
from hourline_core.model.metric import Metric
from hourline_core.model.settings import Settings
from hourline_core.model.source import Source

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[str, type[Declaration]] = {"settings": Settings, "source": Source, "metric": Metric}


def json_schema(kind: str | None = None) -> dict[str, Any]:
    """The schema of one kind of file (``settings``, ``source`` or ``metric``); without a kind, all three under
    ``$defs``.
    """
    models = list(KINDS.values()) if kind is None else [KINDS[kind]]
    references, schema = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = _as_files_write_it(schema["$defs"])
    for model in (Source, Metric):
        if model in models:
            # The file's name is the name where none is given.
            definitions[model.__name__]["required"].remove("name")
    whole: dict[str, Any] = {"$schema": DIALECT, "title": "Hourline"}
    if kind is not None:
        whole |= references[KINDS[kind], "validation"]
    return {**whole, "$defs": definitions}


def _as_files_write_it(schema: Any) -> Any:
    """Allow what reading a file allows: any scalar for text, ``${NAME}`` for a number or truth value, and nothing for a
    default.
    """
    if isinstance(schema, list):
        return [_as_files_write_it(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _as_files_write_it(item) for key, item in schema.items()}
    if changed.get("type") == "string" and not {"pattern", "enum", "const", "format"} & changed.keys():
        changed["type"] = ["string", "number", "boolean"]
    elif changed.get("type") in ("integer", "boolean"):
        kept = {key: changed.pop(key) for key in ("title", "description", "default") if key in changed}
        changed = {**kept, "anyOf": [changed, {"type": "string", "pattern": r"\$\{"}]}
    if "patternProperties" in changed:
        # pydantic gives the pattern of the allowed names, and leaves others open.
        changed["additionalProperties"] = False
    for name, item in changed.get("properties", {}).items():
        if name not in changed.get("required", []) and {"type": "null"} not in item.get("anyOf", []):
            kept = {key: item.pop(key) for key in ("title", "description", "default") if key in item}
            changed["properties"][name] = {**kept, "anyOf": [item, {"type": "null"}]}
    return changed
