"""JSON Schema of the declaration files, for YAML support in editors."""

from typing import Any

from pydantic.json_schema import models_json_schema

from hourline_core.model.base import Declaration
from hourline_core.model.lookup import Lookup
from hourline_core.model.metric import Metric
from hourline_core.model.metric_test import MetricTest
from hourline_core.model.rollup import Rollup
from hourline_core.model.settings import Settings
from hourline_core.model.sink import Sink
from hourline_core.model.source import DERIVATIONS, Source

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[str, tuple[type[Declaration], ...]] = {
    "settings": (Settings,),
    "source": (Source,),
    "lookup": (Lookup,),
    "metric": (Metric, Rollup),
    "sink": (Sink,),
    "test": (MetricTest,),
}


def json_schema(kind: str | None = None) -> dict[str, Any]:
    """The schema of one kind of file: ``settings``, ``source``, ``lookup``, ``metric``, ``sink`` or ``test``. None:
    of all.
    """
    models = [model for one, models in KINDS.items() if kind in (None, one) for model in models]
    references, schema = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = _allow_file_forms(schema["$defs"])
    for model in (Source, Lookup, Metric, Rollup, Sink):
        if model in models:
            # The name may be left out: it is then the file's name.
            definitions[model.__name__]["required"].remove("name")
    if Metric in models:
        _allow_sql(definitions["Metric"])
    if Source in models:
        _allow_derived(definitions["Source"])
    whole: dict[str, Any] = {"$schema": DIALECT, "title": "Hourline"}
    if kind is not None:
        of_kind = [references[model, "validation"] for model in models]
        whole |= of_kind[0] if len(of_kind) == 1 else {"anyOf": of_kind}
    return {**whole, "$defs": definitions}


def _allow_derived(source: dict[str, Any]) -> None:
    """Allow ``join``, ``snapshot`` or ``upsert`` in place of a topic and what is said of its records."""
    of_topic = {"required": ["topic", *source.pop("required")]}
    source["anyOf"] = [of_topic, *({"required": [key]} for key in DERIVATIONS)]


def _allow_sql(metric: dict[str, Any]) -> None:
    """Allow ``sql`` in place of the keys that its statement says."""
    metric["properties"]["sql"] = {
        "type": "string",
        "title": "Sql",
        "description": "One SELECT statement in place of source, window, dimensions, measures and where.",
    }
    metric["anyOf"] = [{"required": metric.pop("required")}, {"required": ["sql"]}]


def _allow_file_forms(schema: Any) -> Any:
    """Allow what reading a file allows: scalars for text, ``${NAME}`` for numbers and booleans, null for a default."""
    if isinstance(schema, list):
        return [_allow_file_forms(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _allow_file_forms(item) for key, item in schema.items()}
    if changed.get("type") == "string" and not {"pattern", "enum", "const", "format"} & changed.keys():
        changed["type"] = ["string", "number", "boolean"]
    elif changed.get("type") in ("integer", "boolean"):
        kept = {key: changed.pop(key) for key in ("title", "description", "default") if key in changed}
        changed = {**kept, "anyOf": [changed, {"type": "string", "pattern": r"\$\{"}]}
    if "patternProperties" in changed:
        # pydantic states the pattern of the allowed names, but does not forbid other names.
        changed["additionalProperties"] = False
    for name, item in changed.get("properties", {}).items():
        if name not in changed.get("required", []) and {"type": "null"} not in item.get("anyOf", []):
            kept = {key: item.pop(key) for key in ("title", "description", "default") if key in item}
            changed["properties"][name] = {**kept, "anyOf": [item, {"type": "null"}]}
    return changed
