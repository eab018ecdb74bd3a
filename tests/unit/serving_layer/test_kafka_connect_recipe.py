"""The connectors of docs/guides/kafka-connect.md fit the sources, the sink and the table beside them."""

import json
import re
from pathlib import Path

from hourline import load_project
from hourline_core.model.sink import SENT_COLUMNS
from tests.support.connect_recipe import GUIDE, connectors, declarations
from tests.support.project_files import write_project
from tests.support.shown import blocks


def test_topics_keys_and_columns_are_those_of_the_project(tmp_path: Path) -> None:
    project, of = (
        load_project(write_project(tmp_path, {"hourline.yaml": "name: shop\n", **declarations()})),
        connectors(),
    )
    sales, sink = project.metrics["sales"], project.sinks["sales"]
    visits, orders, out = of["visits-in"], of["orders-in"], of["sales-out"]
    assert visits["topic"] == project.sources["visits"].topic
    assert f"{orders['topic.prefix']}.{orders['table.include.list']}" == project.sources["orders"].topic
    assert (out["topics"], sink.metric) == (sink.topic, "sales")

    sent = [*sales.measures, *(name for name in SENT_COLUMNS if not name.startswith("window_"))]
    schema = json.loads(out["value.converter.schema.content"])
    assert [field["field"] for field in schema["fields"]] == sent
    assert [field.get("optional", False) for field in schema["fields"]] == [name in sales.measures for name in sent]
    (table,) = re.findall(
        rf"CREATE TABLE {out['collection.name.format']} \((.*?)\n\);", "".join(blocks(GUIDE, "sql")), re.S
    )
    columns = re.findall(r"^    (\w+) ", table, re.MULTILINE)
    assert columns == [out["primary.key.fields"], "hour", *sales.dimensions, *sent]
    assert out["transforms.key.field"] == out["primary.key.fields"]
