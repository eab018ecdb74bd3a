"""An empty answer says what it may be waiting for: records that no finished micro-batch has read."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import serving_layer
from hourline.cli import app
from hourline_core.errors import UsageError
from hourline_core.runtime.lease import lease
from hourline_core.sql.attach_on_demand import AttachedParts
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets, PartitionOffsets, SourceOffsets, Unknown
from serving_layer.reports.waiting import find_waiting
from tests.support.visits import Visit, Visits, hour
from tests.support.visits_tables import iso, serving


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    visits = Visits(tmp_path)
    visits.start()
    return visits


def sent(count: int, cluster: str | None = None) -> SourceOffsets:
    """Kafka with so many records."""
    return SourceOffsets({"visits": {0: PartitionOffsets(0, count)}}, cluster=cluster)


def said(site: Visits, offsets: SourceOffsets | Unknown, *, running: bool = True) -> list[str]:
    of_sources: Offsets = {"visits": offsets}
    with serving_layer.connect(site.project) as connection:
        if not running:
            return [one.in_words() for one in find_waiting(connection, "FROM loads", of_sources)]
        with lease(site.project.workspace, "speed"):
            return [one.in_words() for one in find_waiting(connection, "FROM loads", of_sources)]


def test_before_the_first_micro_batch_has_finished_an_empty_answer_says_that_it_is_under_way(site: Visits) -> None:
    first = "of 'visits' have not been counted yet: the first micro-batch is still under way; ask again in a moment"
    assert said(site, sent(200)) == [f"200 record(s) {first}"]
    assert said(site, Unknown("Kafka is slow")) == [f"records {first}"]
    assert said(site, sent(0)) == ["no record of 'visits' has come yet"]


def test_later_it_says_how_many_records_wait_if_any_do(site: Visits) -> None:
    site.micro_batch(Visit(0, "home", 5), Visit(0, "home", 6))
    assert said(site, sent(5)) == [
        "3 record(s) of 'visits' have not been counted yet: a micro-batch is under way; ask again in a moment"
    ]
    assert said(site, sent(2)) == ["all sent records of 'visits' are counted"]
    assert said(site, Unknown("Kafka is slow")) == [
        "how many records of 'visits' are not counted yet is not known: Kafka is slow"
    ]


def test_while_the_speed_layer_does_not_run_it_says_what_starts_it(site: Visits) -> None:
    stopped = "the speed layer is not running; `hourline up` starts it"
    waiting = f"of 'visits' have not been counted yet: {stopped}"
    assert said(site, sent(200), running=False) == [f"200 record(s) {waiting}"]
    assert said(site, sent(0), running=False) == [f"no record of 'visits' has come yet: {stopped}"]
    site.micro_batch(Visit(0, "home", 5))
    assert said(site, sent(2), running=False) == [f"1 record(s) {waiting}"]


def test_a_hint_attaches_no_table_that_the_query_does_not_need(site: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    site.micro_batch(Visit(0, "home", 5))
    monkeypatch.setattr(AttachedParts, "attach_all", lambda *_: pytest.fail("all tables are attached"))
    assert said(site, sent(3))


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("FROM loads", ["visits"]),
        ("SELECT * FROM loads_states JOIN Events_Visits USING (hour)", ["visits"]),
        ("FROM rejected_orders", ["orders"]),
        ("FROM hours", ["orders", "visits"]),
    ],
)
def test_only_sources_that_the_query_names_matter(tmp_path: Path, query: str, named: list[str]) -> None:
    site = Visits(tmp_path)
    (site.project.root / "sources/orders.yaml").write_text("topic: orders\nfields: {at: string}\nevent_time: at\n")
    site = Visits(tmp_path)
    site.start()
    with serving_layer.connect(site.project) as connection:
        assert sorted(connection.sources(query)) == named


@pytest.mark.parametrize(("query", "hinted"), [("FROM loads", True), ("SELECT count(*) AS n FROM loads", False)])
def test_the_query_has_its_hint_on_standard_error_and_only_under_an_empty_table(
    site: Visits, query: str, hinted: bool
) -> None:
    asked = CliRunner().invoke(app, ["query", query, "--project", str(site.project.root)], catch_exceptions=False)
    assert ("have not been counted yet" in asked.stderr) is hinted
    assert "counted yet" not in asked.stdout


NOT_COUNTED = (
    "3 record(s) of 'visits' have not been counted yet: the speed layer is not running; `hourline up` starts it"
)


@pytest.mark.parametrize("form", ["table", "csv", "jsonl"])
def test_each_answer_can_tell_how_many_sent_records_it_does_not_count(
    site: Visits, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    site.micro_batch(Visit(0, "home", 5), Visit(0, "home", 6))
    monkeypatch.setattr(KafkaOffsets, "_of", lambda *_: sent(5))
    ask = ["query", "SELECT visits FROM loads", "--format", form, "--project", str(site.project.root)]
    answer = CliRunner().invoke(app, ask)
    assert "counted yet" not in answer.stderr
    asked = CliRunner().invoke(app, [*ask, "--waiting"], catch_exceptions=False)
    assert (NOT_COUNTED in " ".join(asked.stderr.split()), asked.stdout) == (True, answer.stdout)
    refused = CliRunner().invoke(app, [*ask, "--waiting", "--as-of", "p0-visits.1"])
    assert "--waiting is about the newest result" in str(refused.exception)


def test_an_answer_in_python_can_tell_it(site: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    site.micro_batch(Visit(0, "home", 5), Visit(0, "home", 6))
    monkeypatch.setattr(KafkaOffsets, "_of", lambda *_: sent(5))
    with serving_layer.connect(site.project) as connection:
        (found,) = connection.waiting("FROM loads")
        token = connection.token
    assert (found.source, found.count, found.in_words()) == ("visits", 3, NOT_COUNTED)
    with (
        serving_layer.connect(site.project, as_of=token) as connection,
        pytest.raises(UsageError, match="is about the newest result"),
    ):
        connection.waiting("FROM loads")


@pytest.mark.parametrize(
    "path",
    ["metrics/loads", "metrics/loads?format=csv", "metrics/loads?format=arrow", f"metrics/loads/hours/{iso(hour(0))}"],
)
def test_an_answer_over_http_can_tell_it(site: Visits, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    site.micro_batch(Visit(0, "home", 5), Visit(0, "home", 6))
    kafka: list[SourceOffsets | Unknown] = [sent(5)]
    monkeypatch.setattr(KafkaOffsets, "_of", lambda *_: kafka[0])
    address = f"/api/v1/{path}{'&' if '?' in path else '?'}waiting="
    with serving(site.project) as client:
        answer, asked = client.get(f"{address}false"), client.get(f"{address}true")
        assert "hourline-waiting" not in answer.headers
        assert (asked.headers["hourline-waiting"], asked.headers["cache-control"]) == ("visits=3", "no-store")
        if "json" in asked.headers["content-type"]:
            told = [{"source": "visits", "count": 3, "words": NOT_COUNTED}]
            assert answer.json() == {**asked.json(), "waiting": None}
            assert asked.json()["waiting"] == told
        kafka[0] = Unknown("Kafka is slow")
        assert client.get(f"{address}true").headers["hourline-waiting"] == "visits=unknown"
        refused = client.get(f"{address}true&as_of=p0-visits.1")
        assert refused.status_code == 400 and "leave out as_of" in refused.json()["error"]


def test_a_hint_that_cannot_be_given_leaves_the_answer_and_its_exit_status(
    site: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("the address of Kafka may not be read")

    monkeypatch.setattr(KafkaOffsets, "_of", refuse)
    asked = CliRunner().invoke(app, ["query", "FROM loads", "--project", str(site.project.root)])
    assert (asked.exit_code, asked.stderr) == (0, "")
    assert "visits" in asked.stdout
