"""What ``hourline graph`` prints."""

from pathlib import Path

from hourline_core.model import load_project
from hourline_core.model.topology import topology_mermaid, topology_text
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "",
    "sources/orders.yaml": """\
        topic: shop
        fields: {amount: double, at: timestamp}
        event_time: at
        id: record.key
        derived: {big: amount > 100}
        where: >-
          amount is not null
          and amount < 1e6
        """,
    "sources/visits.yaml": "topic: web\nfields: {hits: array<timestamp>}\nexplode: {hit: hits}\nevent_time: hit\n",
    "metrics/turnover.yaml": 'source: orders\ndimensions: [big]\nwhere: "\\"a\\" <> \'#\'"\nmeasures: {orders: count, sum: sum(amount)}\n',
    "metrics/hits.yaml": "source: visits\nmeasures: {hits: count}\n",
}


def test_the_text_lists_topics_sources_and_metrics_with_what_they_do(tmp_path: Path) -> None:
    assert topology_text(load_project(write_project(tmp_path, FILES))).splitlines() == [
        "topic shop",
        "  source orders: event time at; id record.key; derives big; where amount is not null and amount < 1e6",
        "    metric turnover: where \"a\" <> '#'; by big; orders = count, sum = sum(amount)",
        "topic web",
        "  source visits: explodes hits into hit; event time hit",
        "    metric hits: hits = count",
    ]


def test_the_flowchart_has_a_node_for_each_and_escapes_what_mermaid_would_read(tmp_path: Path) -> None:
    lines = [line.strip() for line in topology_mermaid(load_project(write_project(tmp_path, FILES))).splitlines()]
    assert lines[0] == "flowchart LR"
    assert [line for line in lines if "-->" in line] == [
        "topic0 --> source_orders",
        "source_orders --> metric_turnover",
        "topic1 --> source_visits",
        "source_visits --> metric_hits",
    ]
    assert (
        "metric_turnover([\"<b>turnover</b><br>where #quot;a#quot; &lt;&gt; '#35;'<br>by big"
        '<br>orders = count, sum = sum(amount)"])' in lines
    )
