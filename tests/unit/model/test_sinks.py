"""Declarations of sinks: what they say, and what is refused, with the place and what is allowed."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError
from hourline_core.model import Project, Sink
from hourline_core.model.sink_checks import describe_waiting_sinks
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "name: shop\n",
    "sources/sales.yaml": "topic: sales\nfields: {id: string, at: timestamp, amount: long}\nevent_time: at\n",
    "metrics/revenue.yaml": "{source: sales, dimensions: [id], measures: {sales: count, amount: sum(amount)}}",
    "metrics/of_all.yaml": "{from: revenue, dimensions: [], measures: [sales]}",
}


def load(folder: Path, **files: str) -> Project:
    return load_project(
        write_project(folder, {**FILES, **{f"sinks/{name}.yaml": text for name, text in files.items()}})
    )


def test_each_target_is_declared_in_one_line(tmp_path: Path) -> None:
    sinks = load(
        tmp_path,
        out="{metric: revenue, topic: revenue-out, emit: every 90s}",
        hook="{metric: of_all, webhook: 'https://example.org/x?key=1', emit: final}",
        told="{metric: revenue, command: [python, tell.py], emit: closed}",
        table="{metric: revenue, postgresql: 'postgresql://ada@db:5432/shop?table=out.revenue'}",
    ).sinks
    assert {name: (one.target, one.place, one.emit) for name, one in sinks.items()} == {
        "out": ("topic", "revenue-out", "every 1m 30s"),
        "hook": ("webhook", "https://example.org", "final"),
        "told": ("command", "python", "closed"),
        "table": ("postgresql", "postgresql://ada@db:5432/shop?table=out.revenue", "batch"),
    }
    assert [sinks[name].interval for name in ("out", "hook")] == [timedelta(seconds=90), timedelta(0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{metric: revenue}", "got none of topic, webhook, command, postgresql, allowed is one of them"),
        ("{metric: revenue, topic: a, command: [b]}", "command: got topic and command of topic, webhook, command"),
        ("{metric: revenu, topic: a}", "metric: got 'revenu', which is no metric — did you mean 'revenue'?"),
        (
            "{metric: revenue, topic: sales}",
            "topic: got 'sales', which source 'sales' reads: choose a topic of its own",
        ),
        ("{metric: revenue, topic: a b}", "topic: got 'a b', allowed are up to 249 letters"),
        ("{metric: revenue, topic: a, emit: often}", "emit: got 'often', allowed are batch, closed, final, and a time"),
        ("{metric: revenue, topic: a, emit: every 10}", "emit: got '10', allowed are durations such as 30s"),
        ("{metric: revenue, topic: a, emit: every 10ms}", "emit: got 'every 10ms', allowed is at least every 1s"),
        ("{metric: revenue, command: [a], partitions: 2}", "partitions: got it without a topic"),
        ("{metric: revenue, command: [a], format: avro}", "format: got it without a topic"),
        ("{metric: revenue, topic: a, format: avro}", "format: got avro, but hourline.yaml has no registry"),
        ("{metric: revenue, topic: a, format: protobuf}", "format: got protobuf, but hourline.yaml has no registry"),
        ("{metric: revenue, topic: a, format: json_schema}", "format: got json_schema, but hourline.yaml has no"),
        ("{metric: revenue, command: []}", "command"),
        ("{metric: revenue, webhook: 'ftp://x/y'}", "got something else, allowed is http://HOST:PORT/PATH or https://"),
        (
            "{metric: revenue, postgresql: 'postgresql://db/x'}",
            "allowed is postgresql://USER@HOST:PORT/DATABASE?table=",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load(tmp_path, out=text)
    [line] = str(raised.value).splitlines()
    assert line.startswith("sinks/out.yaml:1: ")
    assert said in line


def test_two_sinks_of_one_topic_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="topic: got 'x', which sink 'a' has already: choose another one"):
        load(tmp_path, a="{metric: revenue, topic: x}", b="{metric: of_all, topic: x}")


def test_columns_that_a_sink_adds_are_refused(tmp_path: Path) -> None:
    files = {**FILES, "metrics/tokens.yaml": "{source: sales, measures: {token: count}}"}
    files["sinks/out.yaml"] = "{metric: tokens, topic: x}"
    with pytest.raises(DeclarationError, match="metric: got 'tokens', whose column 'token' has the name of a column"):
        load_project(write_project(tmp_path, files))


@pytest.mark.parametrize(
    "text",
    [
        "{metric: revenue, webhook: 'https://ada:canary@example.org/x'}",
        "{metric: revenue, postgresql: 'postgresql://ada:canary@db/x?table=y'}",
        "{metric: revenue, webhook: {url: 'https://example.org', headers: {Authorization: [canary]}}}",
        "{metric: revenue, webhook: {url: 'https://example.org', headers: {Authorization: \"canary\\n\"}}}",
        "{metric: revenue, webhook: 'htps://example.org/canary'}",
    ],
)
def test_no_secret_is_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load(tmp_path, out=text)
    assert "canary" not in str(raised.value)


def test_a_webhook_with_a_secret_is_not_shown() -> None:
    sink = Sink.model_validate(
        {"name": "a", "metric": "b", "webhook": {"url": "https://x/y?canary", "headers": {"A": "canary"}}}
    )
    assert "canary" not in sink.place
    assert "headers" not in repr(sink)


def test_check_names_the_sinks_that_wait_for_later_events(tmp_path: Path) -> None:
    project = load(
        tmp_path,
        a="{metric: revenue, topic: a}",
        b="{metric: of_all, topic: b, emit: final}",
        c="{metric: revenue, topic: c, emit: closed}",
    )
    said = list(describe_waiting_sinks(project.sinks, project.sources, project.all_metrics, project.where_declared))
    assert [line.partition(" waits")[0] for line in said] == [
        "sinks/b.yaml:1: emit: final",
        "sinks/c.yaml:1: emit: closed",
    ]
    files = {**FILES, "sources/sales.yaml": f"{FILES['sources/sales.yaml']}idle: 15m\n"}
    files["sinks/b.yaml"] = "{metric: revenue, topic: b, emit: final}"
    project = load_project(write_project(tmp_path / "idle", files))
    assert not [*describe_waiting_sinks(project.sinks, project.sources, project.all_metrics, project.where_declared)]
