"""The page shows each hour in its state, keeps up with what is published, and tells what audits found."""

from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, expect

from serving_layer.http.server import Server
from tests.support.page_in_browser import SECONDS, cell, expect_drawn, opened, points
from tests.support.sales import Sales, key

PATIENCE = 4 * SECONDS * 1000
"""Milliseconds: where the machine is slow, the page asks for what is wrong more rarely."""


def test_hours_stand_in_their_states_and_what_may_change_is_dashed(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    assert [cell(page, number) for number in range(5)] == ["final", "revised", "final", "blocked", "provisional"]
    expect_drawn(page, "turnover", solid=points(sales, 0, 2), dashed=points(sales, 0, 1, 2, 3, 4))
    dashed = page.locator('[data-metric="turnover"] .plot path.js-line').nth(-1)
    assert dashed.evaluate("line => getComputedStyle(line).strokeDasharray") not in ("", "none")
    expect(page.locator("#wrong li.fail")).to_have_count(2)  # the blocked hour of both metrics
    expect(page.locator("#sources tbody tr")).to_contain_text("blocked 1")
    expect(page.locator("#sources tbody tr")).to_contain_text("2 Mar 12:59")


def test_provisional_turns_final_and_numbers_correct_themselves_without_a_reload(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    page.evaluate("window.same = true")
    sales.sell((4, "north"), (5, "north"))
    expect(page.locator(f'#strip [data-hour="{key(5)}"]')).to_have_attribute("data-state", "provisional")
    expect(page.locator('[data-metric="turnover"] .value strong')).to_have_text("1")
    sales.publish(1, 3, 4)
    for number in (1, 3, 4):
        expect(page.locator(f'#strip [data-hour="{key(number)}"]')).to_have_attribute("data-state", "final")
    expect_drawn(page, "turnover", solid=points(sales, 0, 1, 2, 3, 4), dashed=points(sales, 4, 5))
    expect(page.locator("#wrong")).to_contain_text("Nothing is known to be wrong", timeout=PATIENCE)
    assert page.evaluate("window.same"), "it was loaded again"


def test_a_wrong_date_does_not_move_what_is_shown(context: BrowserContext, server: Server, sales: Sales) -> None:
    page = opened(context, server)
    sales.sell((24 * 365, "north"), moves_clock=False)
    expect(page.locator("#wrong li.warn")).to_contain_text("1 event(s) are in 1 hour(s) after its clock")
    expect(page.locator(f'#strip [data-hour="{key(3)}"]')).to_have_count(1)
    expect(page.locator(f'#strip [data-hour="{key(24 * 365)}"]')).to_have_count(0)


def test_an_hour_tells_its_audits_and_links_to_their_reports(context: BrowserContext, server: Server) -> None:
    page = opened(context, server, "?hour=2026-03-02T11")
    expect(page.locator("#hour tbody tr")).to_have_count(2)
    expect(page.locator("#hour")).to_contain_text("did not pass its audit")
    with context.expect_page() as new:
        page.locator("#hour").get_by_role("link", name="report").first.click()
    expect(new.value.locator("h1")).to_have_text("by_shop: results 4 hours from 2 Mar 2026, 08:00 UTC")


def test_a_server_that_is_gone_is_told_and_what_changed_meanwhile_is_there_when_it_is_back(
    browser: Browser, context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    server.__exit__(None, None, None)
    expect(page.locator("#live")).to_have_text("reconnecting")
    expect(page.locator("#trouble")).to_contain_text("The server does not answer")
    sales.publish(4)
    with Server(sales.project, environ={}):
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator(f'#strip [data-hour="{key(4)}"]')).to_have_attribute("data-state", "final")
        expect(page.locator("#trouble")).to_be_hidden()
        page.close()


def test_before_the_first_event_it_says_so_and_then_shows_it(browser: Browser, tmp_path: Path) -> None:
    sales = Sales(tmp_path / "empty")
    with Server(sales.project, environ={}) as server, browser.new_context() as context:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#strip")).to_contain_text("No event has been accepted yet", timeout=SECONDS * 1000)
        sales.sell((0, "north"))
        expect(page.locator("#strip button")).to_have_count(1, timeout=SECONDS * 1000)


def test_what_is_found_of_a_source_is_told_until_it_has_gone(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    expect(page.locator("#wrong li.fail")).to_have_count(2)  # the blocked hour of both metrics
    sales.refuse(12)
    found = page.locator("#wrong li.fail", has_text="sales: every record since")
    expect(found).to_contain_text("correct source 'sales', restart the speed layer", timeout=PATIENCE)
    sales.sell((4, "north"), *((5, "north") for _ in range(300)))
    expect(found).to_have_count(0, timeout=PATIENCE)
