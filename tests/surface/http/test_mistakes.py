"""What HTTP says of a mistake, of a fault, and of a machine that lacks something."""

from dataclasses import replace

import httpx
import pytest

from tests.support import raised
from tests.support.bare_tables import SOURCE, BareTables
from tests.support.visits_tables import serving


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
        ("metrics/visits?grain=total&order=hour", 400, "order: there is no column 'hour' (there is: frequency, longest, mean_size, "),
        ("metrics/visits?form=csv", 400, "there is no parameter 'form' — did you mean 'format'?"),
        ("metrics/visits?format=xml", 400, "format: input should be 'json', 'csv' or 'arrow'; got 'xml'"),
        ("metrics/visits?limit=0", 400, "limit: input should be greater than or equal to 1; got '0'"),
        ("metrics/visits?limit=100001", 400, "got limit 100,001, allowed are 100,000 rows on a page (serve.rows)"),
        ("metrics/visits?from=noon", 400, "'noon' is not an hour; write it as 2013-01-05T14 or 2013-01-05T14:00Z"),
        ("metrics/visits?from=2024-03-02&to=2024-03-01", 400, "2024-03-01T00:00Z is reversed; give the earlier hour first"),
        ("metrics/visits?from=9999-12-31", 400, "'9999-12-31' is outside the allowed years, 2 to 9998"),
        ("metrics/visits?from=0001-01-01T00:00%2B14:00", 400, "is not an hour; write it as 2013-01-05T14"),
        ("metrics/visits?where=page:%00", 400, "got a NUL in where, which no value has"),
        ("metrics/visits?" + "&".join(f"where=page:{n}" for n in range(201)), 400, "got 201 values in where, allowed are 200"),
        ("metrics/visits?as_of=p0-clicks.9999999999999999999", 400, "is neither a token nor a time"),
        ("metrics/visits?as_of=yesterday", 400, "'yesterday' is neither a token nor a time; a token looks like p12-flights.345"),
        ("metrics/visits/hours/2024-03-01T01?where=page:/hom", 404, "in 2024-03-01T01:00Z has page '/hom' — did you mean '/home'?"),
        ("metrics/visits/hours/2024-03-09", 404, "no event in 2024-03-09T00:00Z; the nearest hours are 2024-03-01T04:00Z"),
        ("metrics/visits/hours/2024-03-01T01?where=page:a&where=page:b", 400, "got dimension 'page' twice; a cell has one value of each"),
        ("explain/visit/2024-03-01", 404, "there is no metric 'visit' — did you mean 'visits'?"),
        ("explain/visits/2024-03-01?where=size:x", 400, "got 'x' for dimension 'size', which is of type BIGINT"),
        ("explain/visits/2024-03-01?where=page:/hom", 404, "has page '/hom' — did you mean '/home'?"),
        ("explain/visits/windows/2024-03-01", 404, "metric 'visits' has no windows besides hours"),
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


def test_every_request_refuses_a_reversed_range_by_the_same_sentence(client: httpx.Client) -> None:
    paths = [
        path
        for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items()
        for operation in methods.values()
        if {"from", "to"} <= {one["name"] for one in operation.get("parameters", [])}
    ]
    assert len(paths) >= 3
    for path in paths:
        answer = client.get(path.replace("{metric}", "visits"), params={"from": "2024-03-02", "to": "2024-03-01"})
        said = "the range 2024-03-02T00:00Z to 2024-03-01T00:00Z is reversed; give the earlier hour first"
        if "windows" not in path:  # of which the metric has none
            assert (answer.status_code, answer.json()["error"]) == (400, said)


def test_a_source_that_was_never_started_is_not_said_to_be_unknown(tables: BareTables) -> None:
    new = SOURCE.model_copy(update={"name": "views", "topic": "views"})
    with serving(replace(tables.project, sources={**tables.project.sources, "views": new})) as client:
        answer = client.get("/api/v1/rejected/views")
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("source 'views' has no tables yet; `hourline speed`")


def test_another_method_is_told_which_one_is_allowed(client: httpx.Client) -> None:
    answer = client.post("/api/v1/project")
    assert (answer.status_code, answer.json()) == (
        405,
        {"error": "POST is not answered at /api/v1/project; allowed is GET"},
    )


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
