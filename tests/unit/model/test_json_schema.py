"""The JSON Schema of declarations, for editors."""

import json
import re
from pathlib import Path

import pytest

from hourline.initialise import initialise
from hourline_core.model import json_schema


def test_the_schema_has_the_short_forms() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    assert {"Settings", "Source", "Metric"} <= definitions.keys()
    source, metric = definitions["Source"], definitions["Metric"]
    assert source["anyOf"] == [
        {"required": ["topic", "fields", "event_time"]},
        {"required": ["join"]},
        {"required": ["snapshot"]},
        {"required": ["upsert"]},
    ]
    assert metric["anyOf"] == [{"required": ["source", "measures"]}, {"required": ["sql"]}]
    assert source["additionalProperties"] is False
    (field_forms,) = source["properties"]["fields"]["patternProperties"].values()
    assert {"$ref": "#/$defs/Field"} in field_forms["anyOf"]
    assert "long" in json.dumps(field_forms)
    assert {"$ref": "#/$defs/EventTime"} in source["properties"]["event_time"]["anyOf"]
    assert any(
        form.get("type") == ["string", "number", "boolean"] for form in source["properties"]["event_time"]["anyOf"]
    )
    (measure,) = metric["properties"]["measures"]["patternProperties"].values()
    for text in ("count", "sum(delay)", "mean(coalesce(delay, 0))", "avg(delay)", "count(distinct id)"):
        for condition in ("", " where delay > 15", "\nWHERE\n(delay > 15)"):
            assert re.search(measure["pattern"], f"{text}{condition}")
    for text in ("mode(delay)", "countwhere x", "count where", "count wherever x", "sum(x) / count"):
        assert not re.search(measure["pattern"], text)
    dimension_forms = json.dumps(metric["properties"]["dimensions"])
    assert '"array"' in dimension_forms
    assert '"object"' in dimension_forms
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert references <= definitions.keys()


@pytest.mark.parametrize(
    ("kind", "model"), [("settings", "Settings"), ("source", "Source"), ("metric", "Metric"), ("test", "MetricTest")]
)
def test_the_schema_of_one_kind_knows_the_keys_of_the_template(tmp_path: Path, kind: str, model: str) -> None:
    schema = json_schema(kind)
    references = [form["$ref"] for form in schema.get("anyOf", [schema])]
    assert references[0] == f"#/$defs/{model}"
    initialise(tmp_path)
    files = [tmp_path / "hourline.yaml"] if kind == "settings" else sorted((tmp_path / f"{kind}s").iterdir())
    for file in files:
        keys = set(re.findall(r"^(\w+):", file.read_text(encoding="utf-8"), re.MULTILINE))
        assert keys
        assert keys <= schema["$defs"][model]["properties"].keys()
        assert all(schema["$defs"][model]["properties"][key].get("description") for key in keys - {"kafka"})
