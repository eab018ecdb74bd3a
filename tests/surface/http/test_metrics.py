"""The rows of a metric over HTTP, against plain Python over the list of events."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from hourline_core.model.rollup import ResolvedRollup
from serving_layer.http.window_routes import WindowsAnswer
from tests.support.bare_tables import BareTables, hour
from tests.support.http_answers import KEYS, VISITS, rows
from tests.support.visits_tables import Visit, after, grouped, iso, serving, visit_tables
from tests.support.window_oracle import parse_window


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
        "visits_of_each",
        "visitors",
        "often",
        "frequency",
        "state",
    ]


def test_a_rate_by_the_day_is_by_the_hours_that_were_asked_for_and_are_there(client: httpx.Client) -> None:
    asked = {"measure": "frequency", "dimension": "", "grain": "day", "from": iso(hour(1)), "to": iso(hour(30))}
    chosen = [visit for visit in VISITS if visit >= 1]
    assert len(set(chosen)) == 4
    (row,) = client.get("/api/v1/metrics/visits", params=asked).json()["rows"]
    assert row["frequency"] == len(chosen) / (4 * 3600)


def test_a_ratio_alone_is_finished_from_measures_that_are_not_asked_for(client: httpx.Client) -> None:
    answer = client.get("/api/v1/metrics/visits?measure=visits_of_each&grain=total&dimension=")
    assert answer.json()["rows"] == [{"visits_of_each": grouped(VISITS)[()]["visits_of_each"], "state": "provisional"}]


def test_an_estimate_tells_how_near_it_is(client: httpx.Client) -> None:
    columns = client.get("/api/v1/metrics/visits").json()["columns"]
    (metric,) = [one for one in client.get("/api/v1/project").json()["metrics"] if one["name"] == "visits"]
    wanted = {"visitors": "within about 3 % above 4,096"}
    for told in (columns, metric["measures"]):
        assert {one["name"]: one["error"] for one in told if one["error"]} == wanted


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


def test_windows_are_listed_with_their_states_and_the_newest_first(tables: BareTables) -> None:
    pairs = tables.project.metrics["visits"].model_copy(
        update={"name": "pairs", "window": parse_window("{size: 2h, every: 1h}")}
    )
    project = replace(tables.project, rollups={"pairs": ResolvedRollup(pairs, "visits")})
    states = {-1: ("final", None), 0: ("final", None), 1: ("revised", 2)}
    states |= {2: ("provisional", 3), 3: ("provisional", 3), 4: ("provisional", 4)}
    wanted = [
        (hour(number), hour(number + 2), state, None if weakest is None else hour(weakest))
        for number, (state, weakest) in sorted(states.items(), reverse=True)
    ]
    with serving(project) as client:

        def listed(**parameters: str | int) -> list[tuple[object, ...]]:
            told = client.get("/api/v1/metrics/pairs/windows", params=parameters).json()
            assert (told["metric"], told["token"]) == ("pairs", "p2-clicks.3")
            read = WindowsAnswer.model_validate(told).windows
            return [(one.window_start, one.window_end, one.state, one.weakest_hour) for one in read]

        assert listed() == wanted
        # Those that share time with the range, also if they begin before it.
        assert listed(to=iso(hour(3)), **{"from": iso(hour(2))}) == wanted[2:4]
        assert listed(limit=1) == wanted[:1]
        refused = client.get("/api/v1/metrics/visits/windows")
        for path in (f"explain/pairs/{iso(hour(2))}", f"metrics/pairs/hours/{iso(hour(2))}"):
            merged = client.get(f"/api/v1/{path}")
            assert merged.status_code == 400, path
            assert "'pairs' is merged from 'visits' when it is read" in merged.json()["error"]
    assert refused.status_code == 400
    said = "metric 'visits' has no windows besides hours; ask for /api/v1/hours?metric=visits"
    assert refused.json()["error"] == said
