"""What ``hourline graph`` prints."""

from pathlib import Path

from hourline_core.model import load_project
from hourline_core.model.topology_text import topology_mermaid, topology_text
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
    "metrics/hits.yaml": "source: visits\nwindow: 90m\nmeasures: {hits: count}\n",
}


def test_the_text_lists_topics_sources_and_metrics_with_what_they_do(tmp_path: Path) -> None:
    assert topology_text(load_project(write_project(tmp_path, FILES))).splitlines() == [
        "topic shop",
        "  source orders: event time at; id record.key; derives big; where amount is not null and amount < 1e6",
        "    metric turnover: where \"a\" <> '#'; by big; orders = count, sum = sum(amount)",
        "topic web",
        "  source visits: explodes hits into hit; event time hit",
        "    metric hits: in windows of 90m, kept in panes of 30m; hits = count",
    ]


def test_the_flowchart_has_a_node_for_each_and_escapes_what_mermaid_would_read(tmp_path: Path) -> None:
    lines = [line.strip() for line in topology_mermaid(load_project(write_project(tmp_path, FILES))).splitlines()]
    assert lines[0] == "flowchart LR"
    assert [line for line in lines if "-->" in line] == [
        "source_orders --> metric_turnover",
        "topic0 --> source_orders",
        "source_visits --> metric_hits",
        "topic1 --> source_visits",
    ]
    assert (
        "metric_turnover([\"<b>turnover</b><br>where #quot;a#quot; &lt;&gt; '#35;'<br>by big"
        '<br>orders = count, sum = sum(amount)"])' in lines
    )


def test_a_source_of_several_topics_is_listed_with_the_first_and_drawn_once(tmp_path: Path) -> None:
    files = {**FILES, "sources/visits.yaml": FILES["sources/visits.yaml"].replace("web", "[web, app]")}
    files["sources/views.yaml"] = 'topic: {pattern: "views_[a-z]+"}\nfields: {at: timestamp}\nevent_time: at\n'
    project = load_project(write_project(tmp_path, files))
    assert [line for line in topology_text(project).splitlines() if "shop" not in line and "order" not in line] == [
        "topic /views_[a-z]+/",
        "  source views: event time at",
        "topic app",
        "  source visits: explodes hits into hit; event time hit",
        "    metric hits: in windows of 90m, kept in panes of 30m; hits = count",
        "topic web",
        "  source visits: as above",
    ]
    lines = [line.strip() for line in topology_mermaid(project).splitlines()]
    assert sum(line.startswith("source_visits[") for line in lines) == 1
    assert {line for line in lines if line.endswith("--> source_visits")} == {
        "topic1 --> source_visits",
        "topic3 --> source_visits",
    }
