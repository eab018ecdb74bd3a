"""What a person chooses, types and presses on the page."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from serving_layer.http.server import Server
from tests.support import sales as sales_project
from tests.support.page_in_browser import drawn, expect_drawn, one_person, opened, points
from tests.support.sales import Sales, key


def test_a_filter_reaches_the_metrics_that_have_the_dimension_and_goes_away_again(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    choice = page.get_by_label("Filter by shop")
    expect(choice.locator("option")).to_have_text(["shop", "<b>south</b>", "north"])  # text, and never markup
    choice.select_option("<b>south</b>")
    expect(page.locator("#metrics-note")).to_have_text("where shop is <b>south</b>")
    expect_drawn(page, "by_shop", dashed=points(sales, 0, 1, 2, 3, 4, shop="<b>south</b>"))
    expect_drawn(page, "turnover", dashed=points(sales, 0, 1, 2, 3, 4))
    expect(page.locator('[data-metric="turnover"]')).to_contain_text("not filtered by shop")
    page.get_by_label("Filter by shop").select_option("north")  # either
    expect(page.locator("#metrics-note")).to_contain_text("north")
    expect_drawn(page, "by_shop", dashed=points(sales, 0, 1, 2, 3, 4))
    page.get_by_label("Without the filter shop north").click()
    page.get_by_label("Without the filter shop <b>south</b>").click()
    expect(page.locator("#metrics-note")).to_have_text("all dimensions together")


def test_a_link_restores_what_one_saw_and_so_does_going_back(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    page.get_by_role("button", name="24 hours").click()
    page.get_by_label("Filter by shop").select_option("north")
    page.get_by_label("Measure of by_shop").select_option("last")
    page.locator(f'#strip [data-hour="{key(2)}"]').click()
    expect(page.locator("#hour h3")).to_have_text("Monday, 2 March 2026, 10:00 to 11:00 UTC")
    address = page.url
    other = opened(context, server, f"?{urlsplit(address).query}")
    expect(other.locator("#metrics-note")).to_have_text("where shop is north")
    expect(other.locator("#hour h3")).to_have_text("Monday, 2 March 2026, 10:00 to 11:00 UTC")
    expect(other.locator("#hour")).to_contain_text("n 2")
    expect(other.get_by_role("button", name="24 hours")).to_have_attribute("aria-pressed", "true")
    expect(other.get_by_label("Measure of by_shop")).to_have_value("last")
    expect_drawn(other, "by_shop", **drawn(page, "by_shop"))
    other.goto(f"{server.url}/?to=2026-03-02T10")
    expect(other.locator("#strip button")).to_have_count(2)
    for _ in range(4):
        page.go_back()
    expect(page.locator("#metrics-note")).to_have_text("all dimensions together")
    expect(page.locator("#hour")).to_be_hidden()
    expect(page.get_by_role("button", name="3 days")).to_have_attribute("aria-pressed", "true")


def test_the_keyboard_reaches_everything_and_moves_about_the_hours(context: BrowserContext, server: Server) -> None:
    page = opened(context, server)
    wanted = page.evaluate("""
        [...document.querySelectorAll("a[href], button, select, textarea, input, [tabindex]")]
            .filter((one) => !one.disabled && one.tabIndex >= 0 && one.checkVisibility()).map((one) => one.outerHTML.slice(0, 200))""")
    reached, hidden = [], []
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
        if page.evaluate(
            "document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === 'none'"
        ):
            hidden.append(reached[-1])
    assert set(wanted) <= set(reached)
    assert not hidden, "where the focus is must be seen"
    page.locator('#strip [tabindex="0"]').focus()
    for pressed, number in (("ArrowLeft", 3), ("Home", 0), ("ArrowRight", 1), ("End", 4)):
        page.keyboard.press(pressed)
        assert page.evaluate("document.activeElement.dataset.hour") == key(number)
    page.keyboard.press("Enter")
    expect(page.locator("#hour h3")).to_contain_text("12:00 to 13:00")
    page.keyboard.press("Escape")
    expect(page.locator("#hour")).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.hour") == key(4)


def test_sql_is_asked_where_it_is_allowed_and_nowhere_else(context: BrowserContext, server: Server) -> None:
    page = opened(context, server)
    expect(page.locator("#sql")).to_be_hidden()
    project = {**context.request.get(f"{server.url}/api/v1/project").json(), "sql": True}
    asked: list[str] = []
    answer = {
        "token": "p1",
        "columns": [{"name": "n", "type": "BIGINT"}, {"name": "who", "type": "VARCHAR"}],
        "rows": [{"n": 12345, "who": "<i>"}],
    }
    page.route("**/api/v1/project", lambda route: route.fulfill(json=project))

    def answered(route: Route) -> None:
        asked.append(json.loads(route.request.post_data or "")["sql"])
        route.fulfill(json=answer)

    page.route("**/api/v1/sql", answered)
    page.reload()
    page.locator("#sql-text").fill("SELECT 1")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#sql-result td")).to_have_text(["12,345", "<i>"])
    assert asked == ["SELECT 1"]
    assert "sql=SELECT+1" in page.url


@pytest.mark.parametrize(
    ("waiting", "said", "title"),
    [
        (
            {"waits_for": [{"topic": "till", "since": "2026-03-02T09:15:00Z"}]},
            "waits for till",
            "the topic was deleted; it waits for a new one",
        ),
        (
            {"registry_away": {"since": "2026-03-02T09:15:00Z", "reason": "it does not answer"}},
            "waits for the schema registry",
            "it does not answer",
        ),
    ],
    ids=["topic", "registry"],
)
def test_a_source_that_waits_says_for_what(
    context: BrowserContext, server: Server, waiting: dict[str, Any], said: str, title: str
) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        status = response.json()
        status["sources"][0] |= waiting
        route.fulfill(response=response, json=status)

    context.route("**/status*", answer)
    waits = opened(context, server).locator("#sources .bad", has_text="waits for")
    expect(waits).to_have_text(said)
    assert waits.get_attribute("title") == title


def test_a_page_without_metrics_shows_those_that_a_later_start_declares(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_metrics = sales_project.TILINGS
    monkeypatch.setattr(sales_project, "TILINGS", {})
    sales = Sales(tmp_path / "sales")
    sales.sell((0, "north"))
    with Server(sales.project, environ={}) as server, one_person(browser, server) as context:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#metrics")).to_contain_text("No metric has results yet")
        expect(page.locator("#moment")).to_contain_text("p0-sales.1")
        monkeypatch.setattr(sales_project, "TILINGS", all_metrics)
        Sales(tmp_path / "sales")
        expect(page.locator('[data-metric="turnover"]')).to_be_visible()
        expect(page.locator("#moment")).to_contain_text("p0-sales.2")


def test_a_page_without_metrics_looks_for_some_at_each_new_snapshot_and_no_more_often(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "metrics": []})

    context.route("**/api/v1/project", answer)
    page = context.new_page()
    loads: list[Page] = []

    def count(loaded: Page) -> None:
        loads.append(loaded)

    page.on("load", count)
    page.goto(server.url)
    expect(page.locator("#metrics")).to_contain_text("No metric has results yet")
    expect(page.locator("#moment")).to_contain_text("as of")
    with page.expect_event("load"):
        sales.sell((5, "north"))
    expect(page.locator("#moment")).to_contain_text("as of")
    assert len(loads) == 2
