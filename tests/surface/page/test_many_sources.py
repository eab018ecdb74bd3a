"""The page of a project with many sources: a row for each, charts of what was chosen, and nothing asked for that is not
shown.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, expect

from serving_layer.http.server import Server
from tests.support.many_sources import Size, write_many_sources
from tests.support.page_in_browser import SECONDS, one_person, opened, scroll_to

SOURCES, PROBLEMS = 12, 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    size = Size(sources=SOURCES, metrics=SOURCES + 2, hours=30, problems=PROBLEMS, audited=5, expectations=1)
    many = write_many_sources(tmp_path_factory.mktemp("many"), size)
    with Server(many.project, environ={}) as server:
        yield server


@pytest.fixture
def context(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    with one_person(browser, server) as context:
        yield context


def names(page: Page, table: str) -> list[str]:
    return page.locator(f"#{table} tbody th").all_inner_texts()


def test_what_is_wrong_comes_first_and_then_a_row_for_each_source_by_need_or_by_name(
    context: BrowserContext, server: Server
) -> None:
    page = opened(context, server)
    expect(page.locator("#wrong li.fail")).to_have_count(PROBLEMS)
    expect(page.locator("#wrong-note")).to_have_text("3 to mend, 4 to know of")
    expect(page.locator("#sources tbody tr")).to_have_count(SOURCES)
    assert names(page, "sources")[:PROBLEMS] == ["s3", "s1", "s2"]  # s3 is revised, too.
    assert sorted(names(page, "sources")[PROBLEMS : PROBLEMS + 3]) == ["s12", "s6", "s9"]  # They are revised.
    page.get_by_role("button", name="by name").click()
    expect(page.locator("#sources tbody th").nth(1)).to_have_text("s2")
    assert names(page, "sources") == [f"s{number}" for number in range(1, SOURCES + 1)]
    assert "sort=name" in page.url
    hours = page.locator('#sources tr[data-source="s5"] svg')
    expect(hours).to_have_attribute("aria-label", "28 final, 2 provisional")
    expect(hours.locator("path.final")).to_have_count(1)
    assert not page.locator(".metric").count()


def test_much_that_is_wrong_is_folded(context: BrowserContext, server: Server) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        found = response.json()
        route.fulfill(response=response, json={**found, "wrong": found["wrong"][:1] * 20})

    context.route("**/api/v1/status?*", answer)
    page = opened(context, server)
    expect(page.locator("#wrong li")).to_have_count(10)
    page.get_by_role("button", name="all 20").click()
    expect(page.locator("#wrong li")).to_have_count(20)


def test_typing_filters_sources_and_metrics_and_the_address_keeps_it(context: BrowserContext, server: Server) -> None:
    page = opened(context, server)
    page.locator("#find").fill("S1")
    expect(page.locator("#sources tbody tr")).to_have_count(4)
    assert set(names(page, "sources")) == {"s1", "s10", "s11", "s12"}
    assert set(names(page, "metric-list")) == {"m1", "m10", "m11", "m12", "m13"}  # m13 is of s1.
    assert "find=S1" in page.url
    page.reload()
    expect(page.locator("#sources tbody tr")).to_have_count(4)
    expect(page.locator("#find")).to_have_value("S1")
    page.locator("#find").fill("nothing")
    expect(page.locator("#sources")).to_have_text("No source has this in its name.")


def test_charts_are_those_of_what_was_chosen_and_a_link_restores_them(context: BrowserContext, server: Server) -> None:
    page = opened(context, server)
    page.locator('#sources [data-key="s2"]').click()
    expect(page.locator(".metric")).to_have_count(2)
    expect(page.locator("#strip button.cell")).to_have_count(30)
    expect(page.locator('[data-metric="m14"] .plot path.js-line').first).to_be_attached()
    page.locator('#metric-list [data-key="m14"]').click()
    expect(page.locator(".metric")).to_have_count(1)
    assert page.url.endswith("?source=s2&metric=m2")
    other = opened(context, server, "?source=s2&metric=m2&metric=m7")
    expect(other.locator(".metric h3")).to_have_text(["m2", "m7"])
    page.go_back()
    expect(page.locator(".metric")).to_have_count(2)
    page.go_back()
    expect(page.locator(".metric")).to_have_count(0)
    # The row has 72 places, of which the last 30 are hours.
    row = page.locator('#sources tr[data-source="s5"] svg')
    while (box := row.bounding_box()) is None:
        pass  # It was drawn anew at that moment.
    row.click(position={"x": box["width"] * 62.5 / 72, "y": 5})
    expect(page.locator("#hour h3")).to_have_text("Monday, 2 March 2026, 02:00 to 03:00 UTC")
    assert page.url.endswith("?source=s5&hour=2026-03-02T02")


def test_a_click_during_which_an_answer_arrives_is_not_lost(context: BrowserContext, server: Server) -> None:
    page = opened(context, server)
    name = page.locator('#sources [data-key="s2"]')
    name.hover()
    page.mouse.down()
    with page.expect_response("**/api/v1/status?*") as answer:  # with which the table is drawn
        pass
    answer.value.finished()
    page.evaluate("fetch('/api/v1/project').then((answer) => answer.json())")
    page.mouse.up()
    expect(page.locator(".metric")).to_have_count(2)


def test_nothing_is_asked_for_that_is_not_shown(context: BrowserContext, server: Server) -> None:
    page = context.new_page()
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url.removeprefix(server.url).split("?")[0])

    page.on("request", note)
    page.goto(server.url)
    expect(page.locator("#sources svg path").first).to_be_attached(timeout=SECONDS * 1000)
    known = {f"/api/v1/{path}" for path in ("project", "status", "hours", "changes")}
    assert {path for path in asked if path.startswith("/api")} <= known
    assert not [path for path in asked if "plotly" in path]
    page.locator('#sources [data-key="s4"]').click()
    expect(page.locator('[data-metric="m4"] .plot path.js-line').first).to_be_attached(timeout=SECONDS * 1000)
    assert {path for path in asked if "/metrics/" in path} == {"/api/v1/metrics/m4"}
    assert len([path for path in asked if "plotly" in path]) == 1
    scroll_to(page, "late")
    assert "/api/v1/late" in asked


def test_a_long_token_is_short_to_look_at_and_whole_to_copy(context: BrowserContext, server: Server) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(context, server)
    token = page.request.get(f"{server.url}/api/v1/status").json()["token"]
    shown = page.locator("#moment code")
    assert len(shown.inner_text()) == 28 < len(token)
    assert shown.get_attribute("title") == token
    page.get_by_label("Copy the whole token").click()
    assert page.evaluate("navigator.clipboard.readText()") == token


@pytest.mark.parametrize("width", [1360, 390])
def test_it_fits_a_wide_screen_and_a_phone(browser: Browser, server: Server, width: int, tmp_path: Path) -> None:
    with browser.new_context(viewport={"width": width, "height": 844}) as context:
        page = opened(context, server, "?source=s3")
        expect(page.locator('[data-metric="m3"] .plot path.js-line').first).to_be_attached(timeout=SECONDS * 1000)
        assert page.evaluate("document.documentElement.scrollWidth") == width, "nothing sticks out"
