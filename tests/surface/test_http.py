"""Answers over HTTP, from a real server on a socket, against plain Python over the list of events."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from hourline import connect
from hourline_core.errors import TableError
from hourline_core.model.hours import sql_timestamp
from serving_layer import Connection
from serving_layer.http.server import Server
from serving_layer.reports.quality import report_quality
from tests.support import raised
from tests.support.bare_tables import BareTables, hour
from tests.support.project_files import write_project
from tests.support.visits_tables import (
    ODD,
    Visit,
    after,
    grouped,
    iso,
    serve_settings,
    serving,
    some_visits,
    visit_tables,
)

VISITS = some_visits(60)
KEYS = ("hour", "page", "size")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareTables]:
    """Hours 0 and 1 are final, 2 is revised, 3 and 4 provisional."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        tables = visit_tables(tmp_path_factory.mktemp("visits"), VISITS, monkeypatch)
        tables.start()
        tables.micro_batch(40)
        tables.publish(0, 1, 2, metrics=["totals", "visits"])
        tables.micro_batch(18)
        tables.publish(0, 1, metrics=["totals", "visits"])
        tables.micro_batch(2)
        yield tables


@pytest.fixture(scope="module")
def client(tables: BareTables) -> Iterator[httpx.Client]:
    with serving(tables.project) as client:
        yield client


def rows(answer: httpx.Response, *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By keys, the measures of an answer in JSON."""
    assert answer.status_code == 200, answer.text
    found = {}
    for row in answer.json()["rows"]:
        key = tuple(datetime.fromisoformat(row[name]) if name == "hour" else row[name] for name in keys)
        found[key] = {name: value for name, value in row.items() if name not in (*keys, "state")}
    assert len(found) == len(answer.json()["rows"])
    return found


def test_all_rows_of_a_metric_are_what_the_events_say(client: httpx.Client) -> None:
    answer = client.get("/api/v1/metrics/visits")
    assert rows(answer, *KEYS) == grouped(VISITS, *KEYS)
    told = answer.json()
    assert told["states"] == {"final": 2, "revised": 1, "provisional": 2}
    assert (told["metric"], told["token"], told["next"]) == ("visits", "p2-clicks.3", None)
    states = {row["hour"]: row["state"] for row in told["rows"]}
    assert states == {
        iso(hour(n)): state for n, state in enumerate(["final", "final", "revised", "provisional", "provisional"])
    }
    assert [column["name"] for column in told["columns"]] == [
        *KEYS,
        "views",
        "spent",
        "longest",
        "mean_size",
        "visitors",
        "state",
    ]


@pytest.mark.parametrize("grain", ["hour", "day", "month", "total"])
@pytest.mark.parametrize("dimensions", [[], ["page"], ["page", "size"]])
def test_rolled_up_rows_are_what_the_events_say(client: httpx.Client, grain: str, dimensions: list[str]) -> None:
    # All of the events lie within one day.
    answer = client.get("/api/v1/metrics/visits", params={"grain": grain, "dimension": dimensions or ""})
    if grain == "hour":
        assert rows(answer, "hour", *dimensions) == grouped(VISITS, "hour", *dimensions)
        return
    keys = [] if grain == "total" else ["hour"]
    start = () if grain == "total" else (hour(0),)
    assert rows(answer, *keys, *dimensions) == {
        (*start, *key): values for key, values in grouped(VISITS, *dimensions).items()
    }
    assert {row["state"] for row in answer.json()["rows"]} == {"provisional"}  # the weakest


def test_days_and_months_begin_at_midnight_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = [Visit.of(number) for number in (23, 24, 25, 31 * 24 - 1, 31 * 24)]
    tables = visit_tables(tmp_path, visits, monkeypatch)
    tables.start()
    tables.micro_batch(5)
    with serving(tables.project) as client:
        days = client.get("/api/v1/metrics/totals", params={"grain": "day"}).json()["rows"]
        months = client.get("/api/v1/metrics/totals", params={"grain": "month"}).json()["rows"]
    assert [(row["hour"], row["n"]) for row in days] == [
        (f"2024-{day}T00:00:00Z", n) for day, n in (("03-01", 1), ("03-02", 2), ("03-31", 1), ("04-01", 1))
    ]
    assert [(row["hour"], row["n"]) for row in months] == [("2024-03-01T00:00:00Z", 4), ("2024-04-01T00:00:00Z", 1)]


def test_filters_ranges_and_measures_choose(client: httpx.Client) -> None:
    parameters = {
        "from": iso(hour(1)),
        "to": after(2),
        "where": ["page:/home", "page", "size:2"],
        "measure": ["visitors", "views"],
    }
    chosen = [visit for visit in VISITS if 1 <= visit <= 2 and visit.page in ("/home", None) and visit.size == 2]
    expected = {
        key: {"views": values["views"], "visitors": values["visitors"]}
        for key, values in grouped(chosen, *KEYS).items()
    }
    answer = client.get("/api/v1/metrics/visits", params=parameters)
    assert rows(answer, *KEYS) == expected
    assert answer.json()["states"] == {"final": 1, "revised": 1}
    assert rows(client.get("/api/v1/metrics/visits", params={"where": "page:' OR true --"}), *KEYS) == {}


def test_null_and_the_empty_text_are_two_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, [Visit.of(0, "", 1), Visit.of(0, None, 2)], monkeypatch)
    tables.start()
    tables.micro_batch(2)
    with serving(tables.project) as client:
        for where, size in (("page:", 1), ("page", 2)):
            found = client.get("/api/v1/metrics/visits", params={"where": where}).json()["rows"]
            assert [(row["page"], row["size"]) for row in found] == [("" if size == 1 else None, size)]
            cell = client.get(f"/api/v1/metrics/visits/hours/{iso(hour(0))}", params={"where": where}).json()
            assert (cell["dimensions"], cell["measures"]["views"]) == ({"page": found[0]["page"]}, 1)


def test_pages_in_any_order_fit_together_and_show_one_moment(client: httpx.Client) -> None:
    whole = client.get("/api/v1/metrics/visits", params={"order": "-views,visitors"}).json()["rows"]
    assert [(-row["views"], row["visitors"]) for row in whole] == sorted(
        (-row["views"], row["visitors"]) for row in whole
    )
    url, pages = "/api/v1/metrics/visits?order=-views,visitors&limit=7", []
    while url:
        answer = client.get(url).json()
        pages.append(answer["rows"])
        url = answer["next"]
        assert url is None or "as_of=p2-clicks.3" in url
    assert [row for page in pages for row in page] == whole
    assert {len(page) for page in pages[:-1]} == {7}


def test_csv_and_arrow_say_the_same_as_json(client: httpx.Client) -> None:
    expected = client.get("/api/v1/metrics/visits").json()
    answer = client.get("/api/v1/metrics/visits", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["hourline-token"] == expected["token"]
    read = list(csv.DictReader(io.StringIO(answer.text)))
    assert [
        {
            name: "" if value is None else str(value)
            for name, value in row.items()
            if name not in ("longest", "mean_size")
        }
        for row in expected["rows"]
    ] == [{name: value for name, value in row.items() if name not in ("longest", "mean_size")} for row in read]
    assert [float(row["longest"]) for row in read] == [row["longest"] for row in expected["rows"]]
    answer = client.get("/api/v1/metrics/visits?format=arrow&limit=5")
    table = pa.ipc.open_stream(answer.content).read_all()
    assert 'rel="next"' in answer.headers["link"]
    assert table["hour"].type == pa.timestamp("us", tz="UTC")
    assert table["spent"].cast(pa.int64()).to_pylist() == [row["spent"] for row in expected["rows"][:5]]
    assert json.loads(table.schema.metadata[b"states"]) == expected["states"]


def test_integers_keep_all_their_digits_and_what_is_no_number_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = [
        Visit.of(0, "/a", ODD, ODD, float("nan")),
        Visit.of(0, "/b", 1, 1, float("inf")),
        Visit.of(0, "/c", 1, 1, 1e300),
    ]
    tables = visit_tables(tmp_path, visits, monkeypatch)
    tables.start()
    tables.micro_batch(3)
    with serving(tables.project) as client:
        answer = client.get("/api/v1/metrics/visits")
        assert f'"spent":{ODD},' in answer.text and f'"size":{ODD},' in answer.text
        assert [row["longest"] for row in answer.json()["rows"]] == [None, None, 1e300]
        texts = client.get("/api/v1/metrics/visits?integers=text&where=page:/a").json()["rows"][0]
        assert (texts["spent"], texts["size"], texts["views"]) == (str(ODD), str(ODD), "1")
        cell = client.get(f"/api/v1/metrics/visits/hours/{iso(hour(0))}?where=page:/a")
        assert f'"spent":{ODD},' in cell.text and cell.json()["measures"]["longest"] is None
        assert client.get("/api/v1/metrics/visits?format=csv&where=page:/a").text.splitlines()[1].count(",,") == 1


def test_a_cell_is_found_by_hour_and_dimensions(client: httpx.Client) -> None:
    for page in ("/home", None):
        found = client.get(
            f"/api/v1/metrics/visits/hours/{iso(hour(2))}", params={"where": "page" if page is None else f"page:{page}"}
        ).json()
        chosen = [visit for visit in VISITS if visit == 2 and visit.page == page]
        assert found["measures"] == grouped(chosen)[()]
        assert (found["state"], found["token"], found["dimensions"]) == ("revised", "p2-clicks.3", {"page": page})
    whole = client.get(f"/api/v1/metrics/visits/hours/{iso(hour(0))}").json()
    assert whole["measures"] == grouped([visit for visit in VISITS if visit == 0])[()]


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("metrics/visit", 404, "there is no metric 'visit' — did you mean 'visits'?"),
        ("metrics/visits?measure=view", 400, "metric 'visits' has no measure 'view' — did you mean 'views'?"),
        ("metrics/visits?dimension=pages", 400, "metric 'visits' has no dimension 'pages' — did you mean 'page'?"),
        ("metrics/totals?dimension=page", 400, "metric 'totals' has no dimension 'page', nor any other"),
        ("metrics/visits?where=pge:x", 400, "metric 'visits' has no dimension 'pge' — did you mean 'page'?"),
        ("metrics/visits?where=:page", 400, "got where ':page', allowed is DIMENSION:VALUE, such as origin:JFK (`origin` alone means null)"),
        ("metrics/visits?where=size:", 400, "got '' for dimension 'size', which is of type BIGINT"),
        ("metrics/visits?where=size:1.5", 400, "got '1.5' for dimension 'size', which is of type BIGINT"),
        ("metrics/visits?order=-vews", 400, "order: there is no column 'vews' — did you mean 'views'?"),
        ("metrics/visits?grain=total&order=hour", 400, "order: there is no column 'hour' (there is: longest, mean_size, page, "),
        ("metrics/visits?form=csv", 400, "there is no parameter 'form' — did you mean 'format'?"),
        ("metrics/visits?format=xml", 400, "format: input should be 'json', 'csv' or 'arrow'; got 'xml'"),
        ("metrics/visits?limit=0", 400, "limit: input should be greater than or equal to 1; got '0'"),
        ("metrics/visits?limit=100001", 400, "got limit 100,001, allowed are 100,000 rows on a page (serve.rows)"),
        ("metrics/visits?from=noon", 400, "'noon' is not an hour; write it as 2013-01-05T14 or 2013-01-05T14:00Z"),
        ("metrics/visits?from=2024-03-02&to=2024-03-01", 400, "2024-03-01T00:00Z is reversed; `from` is the earlier hour"),
        ("metrics/visits?from=9999-12-31", 400, "'9999-12-31' is outside the allowed years, 2 to 9998"),
        ("metrics/visits?from=0001-01-01T00:00%2B14:00", 400, "is not an hour; write it as 2013-01-05T14"),
        ("metrics/visits?where=page:%00", 400, "got a NUL in where, which no value has"),
        ("metrics/visits?" + "&".join(f"where=page:{n}" for n in range(201)), 400, "got 201 values in where, allowed are 200"),
        ("metrics/visits?as_of=p0-clicks.9999999999999999999", 400, "is no token of an answer, nor a time"),
        ("metrics/visits?as_of=yesterday", 400, "'yesterday' is no token of an answer, nor a time; a token looks like p12-flights.345"),
        ("metrics/visits/hours/2024-03-01T01?where=page:/hom", 404, "in 2024-03-01T01:00Z has page '/hom' — did you mean '/home'?"),
        ("metrics/visits/hours/2024-03-09", 404, "no event in 2024-03-09T00:00Z; the nearest hours are 2024-03-01T04:00Z"),
        ("metrics/visits/hours/2024-03-01T01?where=page:a&where=page:b", 400, "got dimension 'page' twice; a cell has one value of each"),
        ("explain/visits/2024-03-09", 404, "no event in 2024-03-09T00:00Z; the nearest hours are 2024-03-01T04:00Z"),
        ("drift?metric=visit", 404, "there is no metric 'visit' — did you mean 'visits'?"),
        ("hours?metric=visit", 404, "there is no metric 'visit' — did you mean 'visits'?"),
        ("quality?failed=1&blocked=1", 400, "give failed or blocked, not both: blocked shows what is blocked now"),
        ("rejected/click", 404, "there is no source 'click' — did you mean 'clicks'?"),
        ("changes?x=1", 400, "there is no parameter 'x'"),
        ("metrics/visits?limit=1&limit=2", 400, "got limit twice; it has one value"),
        ("metrics/visits?as_of=2999-01-01", 400, "'2999-01-01' lies in the future: it is 20"),
        ("nothing", 404, "there is nothing at /api/v1/nothing; /api/v1/openapi.json lists what there is"),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_sentence(client: httpx.Client, path: str, status: int, sentence: str) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert sentence in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_another_method_is_told_which_one_is_allowed(client: httpx.Client) -> None:
    answer = client.post("/api/v1/project")
    assert (answer.status_code, answer.json()) == (
        405,
        {"error": "POST is not answered at /api/v1/project; allowed is GET"},
    )


def test_the_project_tells_its_sources_and_metrics(client: httpx.Client, tables: BareTables) -> None:
    told = client.get("/api/v1/project").json()
    assert told["sources"] == [
        {"name": source.name, "description": source.description} for source in tables.project.sources.values()
    ]
    assert {metric["name"] for metric in told["metrics"]} == set(tables.project.metrics)


def test_the_heads_of_answers_can_be_asked_for(client: httpx.Client) -> None:
    for path in ("metrics/visits", "hours?from=noon", "changes"):
        head = client.head(f"/api/v1/{path}")
        assert head.content == b""
        if path != "changes":
            answer = client.get(f"/api/v1/{path}")
            assert (head.status_code, dict(head.headers) | {"date": ""}) == (
                answer.status_code,
                dict(answer.headers) | {"date": ""},
            )


def test_openapi_names_what_may_go_wrong_and_how_to_show_a_token(client: httpx.Client) -> None:
    described = client.get("/api/v1/openapi.json").json()
    (scheme,) = described["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, operations in described["paths"].items():
        for operation in operations.values():
            assert operation["security"], path
            assert operation["responses"].keys() >= {"200", "400", "401", "403", "404", "429", "503", "504"}, path


def test_the_first_requests_of_a_server_may_come_at_once(tables: BareTables) -> None:
    with serving(tables.project) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda path: client.get(f"/api/v1/{path}"), ["late", "drift", "status", "quality"] * 2))
    assert [answer.status_code for answer in answers] == [200] * 8, [answer.text for answer in answers]


def test_what_nobody_has_foreseen_shows_no_stack_trace(tables: BareTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving_layer.http.hour_routes.list_late_hours", lambda *_: 1 // 0)
    with serving(tables.project) as client:
        answer = client.get("/api/v1/late")
        assert (answer.status_code, answer.json()) == (
            500,
            {"error": "that is a fault of Hourline's, not yours; the server's log has more of it"},
        )
        assert client.get("/api/v1/project").status_code == 200


@pytest.mark.parametrize(
    ("error", "words"), [(MemoryError(), "memory"), (raised.FULL_LOG, "full"), (raised.READ_ONLY, "read-only")]
)
def test_what_the_machine_lacks_is_told(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("serving_layer.http.hour_routes.list_late_hours", fail)
    with serving(tables.project) as client:
        answer = client.get("/api/v1/late")
        assert (answer.status_code, words in answer.json()["error"]) == (503, True)


def test_an_answer_that_a_client_has_is_not_sent_again(client: httpx.Client) -> None:
    for path in (
        "metrics/visits?grain=day",
        "project",
        "hours",
        "late",
        "drift",
        "quality",
        f"explain/visits/{iso(hour(2))}",
        f"metrics/visits/hours/{iso(hour(1))}",
    ):
        first = client.get(f"/api/v1/{path}")
        again = client.get(f"/api/v1/{path}", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"]), path
    assert client.get("/api/v1/project", headers={"If-None-Match": "*"}).status_code == 304
    as_csv = client.get("/api/v1/metrics/visits?grain=day", headers={"Accept": "text/csv"})
    assert as_csv.headers["etag"] != client.get("/api/v1/metrics/visits?grain=day").headers["etag"]


def test_tables_put_in_the_place_of_others_answer_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(visits: list[Visit]) -> BareTables:
        tables = visit_tables(tmp_path / "tables", visits, monkeypatch)
        tables.start()
        tables.micro_batch(len(visits))
        return tables

    before = write(VISITS[:3])
    with serving(before.project) as client:
        first = client.get("/api/v1/metrics/visits")
    (tmp_path / "tables").rename(tmp_path / "away")
    with serving(write(VISITS[:5]).project) as client:
        second = client.get("/api/v1/metrics/visits", headers={"If-None-Match": first.headers["etag"]})
    assert first.json()["token"] == second.json()["token"]  # both have seen one micro-batch
    assert (rows(first, *KEYS), rows(second, *KEYS)) == (grouped(VISITS[:3], *KEYS), grouped(VISITS[:5], *KEYS))


def test_an_old_answer_is_given_again_and_a_strict_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS, monkeypatch)
    tables.start()
    tables.micro_batch(30)
    with serving(tables.project) as client:
        before = client.get("/api/v1/metrics/visits")
        tables.micro_batch(30)
        tables.publish(0, 1, metrics=["totals", "visits"], blocked=[1])
        assert wait_for(client, "p1-clicks.2")
        again = client.get("/api/v1/metrics/visits", params={"as_of": before.json()["token"]})
        assert again.content == before.content
        assert again.headers["etag"] == before.headers["etag"]
        refused = client.get("/api/v1/metrics/visits?strict=true")
        assert refused.status_code == 409
        assert "of 'visits' 2024-03-01T01:00Z blocked" in refused.json()["error"]
        assert client.get("/api/v1/metrics/visits", params={"strict": True, "from": iso(hour(2))}).status_code == 200
        told = client.get("/api/v1/quality").json()
        with connect(tables.project) as connection:
            same = report_quality(connection)
        assert told["advice"] == same.advice and told["advice"].startswith("2 problems block 1 hour:")
        assert [(one["id"], one["retry"], one["readers"], len(one["hours"])) for one in told["problems"]] == [
            (one.id, one.retry, {"provisional result": 1}, 1) for one in same.problems
        ]


def test_hours_status_audits_and_records_are_those_of_the_command_line(
    tables: BareTables, client: httpx.Client
) -> None:
    with connect(tables.project) as connection:
        expected = connection.sql(
            f"SELECT kind, name, hour, state, events FROM hours WHERE hour < TIMESTAMPTZ '{sql_timestamp(hour(3))}'"
        ).fetchall()
    told = client.get("/api/v1/hours", params={"to": iso(hour(3))}).json()
    assert {
        (h["kind"], h["name"], datetime.fromisoformat(h["hour"]), h["state"], h["events"]) for h in told["hours"]
    } == set(expected)
    assert {h["name"] for h in client.get("/api/v1/hours?metric=visits").json()["hours"]} == {"visits"}
    status = client.get("/api/v1/status?last=2").json()
    (source,) = status["sources"]
    assert (source["accepted"], source["sequence"], source["rejected"]) == (60, 3, 3)
    assert datetime.fromisoformat(source["finished"]) < datetime.now(UTC)
    assert ([h["hour"] for h in status["hours"]], status["recomputing"], status["token"]) == (
        [iso(hour(3)), iso(hour(4))],
        [],
        "p2-clicks.3",
    )
    assert client.get("/api/v1/quality").json()["passed"] > 0
    assert client.get("/api/v1/late").json() == {"token": "p2-clicks.3", "hours": []}
    found = client.get(f"/api/v1/explain/visits/{iso(hour(2))}?where=page:/home").json()
    assert {a["measure"]: a["value"] for a in found["answer"]} == grouped(
        [visit for visit in VISITS if visit == 2 and visit.page == "/home"]
    )[()]
    assert client.get("/api/v1/rejected/clicks?limit=1").json()["rejected"] == [
        {"sequence": 3, "topic": "clicks", "partition": 1, "offset": 3, "reason": "invalid JSON", "value": "ew=="}
    ]


def test_the_reports_are_linked_and_served(tables: BareTables, client: httpx.Client) -> None:
    page = tables.project.workspace / "quality" / "runs" / "000002" / "metric-visits.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("<p>what was found")
    address = client.get(f"/api/v1/metrics/visits/hours/{iso(hour(0))}").json()["report"]
    assert address == "/reports/runs/000002/metric-visits.html#h2024-03-01T00:00Z"
    answer = client.get(address)
    assert (answer.text, "default-src 'none'" in answer.headers["content-security-policy"]) == (
        "<p>what was found",
        True,
    )
    assert client.get("/reports/../../hourline.yaml").status_code == 404
    assert client.get("/reports/%2e%2e/%2e%2e/tables").status_code == 404


def test_a_stream_tells_when_an_hour_becomes_final_and_goes_on_where_one_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, [Visit.of(0), Visit.of(1), Visit.of(1)], monkeypatch)
    tables.start()
    tables.micro_batch(2)
    with serving(tables.project) as client:
        with client.stream("GET", "/api/v1/changes") as stream:
            lines = stream.iter_lines()
            assert next_token(lines) == ([], {"token": "p0-clicks.1", "complete": False})
            tables.publish(0, metrics=["totals", "visits"])
            told, token = next_token(lines)
            assert token == {"token": "p1-clicks.1", "complete": True}
            assert told == [
                {"metric": name, "hour": iso(hour(0)), "state": "final", "token": "p1-clicks.1"}
                for name in ("totals", "visits")
            ]
        tables.micro_batch(1)
        assert wait_for(client, "p1-clicks.2")
        with client.stream("GET", "/api/v1/changes", headers={"Last-Event-ID": "p0-clicks.1"}) as stream:
            told, token = next_token(stream.iter_lines())
            assert {(one["metric"], one["hour"], one["state"]) for one in told} == {
                (name, iso(hour(number)), state)
                for name in ("totals", "visits")
                for number, state in ((0, "final"), (1, "provisional"))
            }
            assert token == {"token": "p1-clicks.2", "complete": True}


def next_token(lines: Iterator[str]) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """The hours that are told before the next token, and what is told with it."""
    hours: list[dict[str, str]] = []
    event = ""
    for line in lines:
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            if event == "token":
                return hours, data
            hours.append(data)
    raise AssertionError("the stream has ended")


def wait_for(client: httpx.Client, token: str) -> bool:
    """Whether the server comes to this token; it tells so itself."""
    with client.stream("GET", "/api/v1/changes") as stream:
        lines = stream.iter_lines()
        return any(next_token(lines)[1]["token"] == token for _ in range(10))


def test_a_server_stops_though_streams_are_open(tables: BareTables) -> None:
    with (
        Server(tables.project, environ={}) as server,
        httpx.stream("GET", f"{server.url}/api/v1/changes", timeout=30) as stream,
    ):
        lines = stream.iter_lines()
        next_token(lines)
        server.stop()
        assert list(lines) is not None  # the stream has come to its end, not been torn
    assert not server.running


def test_two_servers_on_the_same_tables_answer_alike_and_one_goes_on_without_the_other(tables: BareTables) -> None:
    paths = [
        "metrics/visits",
        "metrics/visits?format=csv",
        "metrics/visits?format=arrow",
        "hours",
        "project",
        f"explain/visits/{iso(hour(2))}",
        "drift",
    ]
    script = f"""
import sys; from pathlib import Path; sys.path[:0] = {[str(Path(__file__).parents[2])]!r}
import pytest
from tests.support import visits_tables
with pytest.MonkeyPatch.context() as monkeypatch:
    project = visits_tables.visit_tables(Path({str(tables.project.root)!r}), [], monkeypatch).project
from serving_layer.http.server import Server
from serving_layer.reports.quality import report_quality
with Server(project, environ={{}}) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
    with serving(tables.project) as own:
        other = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        )
        try:
            assert other.stdout is not None
            url = other.stdout.readline().strip()
            for path in paths:
                mine, theirs = own.get(f"/api/v1/{path}"), httpx.get(f"{url}/api/v1/{path}", timeout=60)
                assert (mine.content, mine.headers["etag"]) == (theirs.content, theirs.headers["etag"]), path
                assert mine.status_code == 200
            other.send_signal(signal.SIGKILL)
            other.wait()
            assert own.get("/api/v1/metrics/visits", headers={"If-None-Match": "none"}).status_code == 200
        finally:
            other.kill()
            other.wait()


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    source = "topic: clicks\nfields: {n: long, at: string}\nevent_time: at\n"
    write_project(tmp_path, {"hourline.yaml": "name: nothing yet", "sources/clicks.yaml": source})
    command = [sys.executable, "-m", "hourline", "serve", "--project", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("nothing yet is served at http://127.0.0.1:"), process.communicate()
        url = said.split(" at ")[1].split(";")[0]
        assert httpx.get(f"{url}/health", timeout=30).json() == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1] == "stopping\nstopped\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_tables_that_could_not_be_read_once_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS[:10], monkeypatch)
    tables.start()
    tables.micro_batch(5)
    failures: list[str] = []

    def failing_once(*arguments: Any, **named: Any) -> Connection:
        if not failures:
            failures.append("a disk that is away for a moment")
            raise TableError(failures[0])
        return Connection(*arguments, **named)

    with serving(tables.project) as client:
        monkeypatch.setattr("serving_layer.http.snapshots.Connection", failing_once)
        tables.micro_batch(5)  # and nothing after that, which would make it look again
        assert wait_for(client, "p0-clicks.2")
        assert failures
        assert client.get("/health").json() == {"status": "ok"}


def test_a_project_whose_tables_come_later_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS[:5], monkeypatch)
    with serving(serve_settings(tables.project)) as client:
        answer = client.get("/api/v1/metrics/visits")
        assert answer.status_code == 404
        assert "has no tables yet" in answer.json()["error"]
        tables.start()
        tables.micro_batch(5)
        assert wait_for(client, "p0-clicks.1")
        assert rows(client.get("/api/v1/metrics/visits"), *KEYS) == grouped(VISITS[:5], *KEYS)
