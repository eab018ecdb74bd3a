"""The project, its hours, audits, records and reports over HTTP."""

from datetime import UTC, datetime

import httpx

from hourline import connect
from hourline_core.model.hours import sql_timestamp
from tests.support.bare_tables import BareTables, hour
from tests.support.http_answers import VISITS
from tests.support.visits_tables import grouped, iso


def test_the_project_tells_its_sources_and_metrics(client: httpx.Client, tables: BareTables) -> None:
    told = client.get("/api/v1/project").json()
    assert all(datetime.fromisoformat(source.pop("clock")) for source in told["sources"])
    assert told["sources"] == [
        {"name": source.name, "description": source.description} for source in tables.project.sources.values()
    ]
    assert {metric["name"] for metric in told["metrics"]} == set(tables.project.metrics)


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


def test_openapi_names_what_may_go_wrong_and_how_to_show_a_token(client: httpx.Client) -> None:
    described = client.get("/api/v1/openapi.json").json()
    (scheme,) = described["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, operations in described["paths"].items():
        for operation in operations.values():
            assert operation["security"], path
            assert operation["responses"].keys() >= {"200", "400", "401", "403", "404", "429", "503", "504"}, path
