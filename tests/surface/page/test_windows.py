"""The page draws a metric by its windows, and tells what each of them is made of."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from hourline_core.aggregates.top import MOST_VALUES
from hourline_core.model.rollup import ResolvedRollup
from serving_layer.http.server import Server
from tests.support.bare_tables import hour as hour_of_visits
from tests.support.page_in_browser import expect_drawn, one_person, opened
from tests.support.sales import METRICS, Sales, hour
from tests.support.visits_tables import VISITS, Visit, visit_tables
from tests.support.window_oracle import parse_window

WINDOWS = {
    name: ResolvedRollup(
        METRICS["by_shop"].model_copy(update={"name": name, "window": parse_window(window)}), "by_shop"
    )
    for name, window in (("by_day", "{size: 1 day, zone: Asia/Tokyo}"), ("rolling", "{size: 3h, every: 1h}"))
}
"""A day in Tokyo begins at 15:00 UTC, seven hours after BASE."""


def test_a_metric_is_drawn_by_its_windows_which_tell_their_state_and_what_they_are_made_of(
    browser: Browser, sales: Sales, tmp_path: Path
) -> None:
    """Leaves screenshots, as test_it_fits_a_phone_and_the_dark does."""
    sales.sell(*((number, "north") for number in (7, 8, 30, 31)))
    sales.publish(3, *range(4, 31))
    with (
        Server(replace(sales.project, rollups=WINDOWS), environ={}) as server,
        one_person(browser, server) as context,
    ):
        page = opened(context, server)
        sold = Counter(number for number, _ in sales.sold)
        days = [sum(sold[number] for number in some) for some in (range(7), range(7, 31), range(31, 55))]
        starts = [f"{hour(number):%Y-%m-%d %H:%M}" for number in (-17, 7, 31)]
        # The first day has an hour with a late sale, and the last one has hours to come.
        expect_drawn(page, "by_day", solid=[(starts[1], days[1])], dashed=list(zip(starts, days, strict=True)))
        rolling = {number: sum(sold[one] for one in range(number, number + 3)) for number in range(-2, 32)}
        points = [(f"{hour(number):%Y-%m-%d %H:%M}", value) for number, value in rolling.items() if value]
        expect_drawn(page, "rolling", both=points)
        told = page.locator('[data-metric="by_day"] .plot').evaluate(
            "plot => plot.data.flatMap(({ text }) => text ?? [])"
        )
        assert f"Sun 1 Mar 15:00 to Mon 2 Mar 15:00<br><b>{days[0]}</b> revised<br>weakest hour Mon 2 Mar 09:00" in told
        assert (
            f"Tue 3 Mar 15:00 to Wed 4 Mar 15:00<br><b>{days[2]}</b> provisional<br>weakest hour Tue 3 Mar 15:00"
            in told
        )
        expect(page.locator('[data-metric="by_day"]')).to_contain_text("windows of 1 day in Asia/Tokyo")
        # Of windows that overlap, the number is that of the newest one that has ended.
        expect(page.locator('[data-metric="rolling"] .value strong')).to_have_text(str(rolling[29]))

        mark = page.locator('[data-metric="by_day"] .plot .trace').last.locator("path.point").first
        mark.click(force=True)
        panel = page.locator("#window")
        expect(panel.locator("h3")).to_have_text(
            "by_day: Sunday, 1 March 2026, 15:00 to Monday, 2 March 2026, 15:00 UTC"
        )
        expect(panel).to_contain_text(
            "6 final, 1 revised hours · closed · windows of 1 day in Asia/Tokyo · merged from by_shop"
        )
        expect(panel).to_contain_text(f"n {days[0]}")
        expect(panel.locator("tbody tr")).to_have_count(7)
        expect(panel.locator("tbody tr").nth(1)).to_contain_text("revised")
        page.get_by_label("Filter by shop").select_option("north")
        expect(panel).to_contain_text(f"n {sum(shop == 'north' for number, shop in sales.sold if number < 7)}")
        same = opened(context, server, f"?{urlsplit(page.url).query}")
        expect(same.locator("#window h3")).to_contain_text("by_day: Sunday, 1 March 2026")
        page.get_by_label("Filter by shop").select_option("<b>south</b>")
        expect(panel).to_contain_text("explained for one value of shop, or for all")
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()

        page.get_by_label("Without the filter shop north").click()
        page.get_by_label("Without the filter shop <b>south</b>").click()
        sales.publish(1)
        solid, dashed = (list(zip(starts[some], days[some], strict=True)) for some in (slice(2), slice(1, None)))
        expect_drawn(page, "by_day", solid=solid, dashed=dashed)
        folder = Path(os.environ.get("HOURLINE_SCREENSHOTS") or tmp_path)
        for width in (390, 1440):
            with browser.new_context(viewport={"width": width, "height": 844}) as narrow:
                page = opened(narrow, server, "?window=by_day:2026-03-01T15:00")
                expect(page.locator("#window h3")).to_be_visible()
                page.screenshot(path=folder / f"windows-{width}.png", full_page=True)
                assert page.evaluate("document.documentElement.scrollWidth") == width, "nothing sticks out"


def test_the_most_frequent_values_are_told_of_an_hour_and_of_a_window_and_listed(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = [Visit.of(0, visitor=visitor) for visitor in ("ada", "bo", "bo", "cy", "cy", "cy")]
    rare = [Visit.of(1, visitor=f"v{number}") for number in range(MOST_VALUES + 1)]
    tables = visit_tables(tmp_path, [*often, *rare], monkeypatch)
    tables.start()
    tables.micro_batch(len(often) + len(rare))
    some = {name: VISITS.measures[name] for name in ("often", "views", "visitors")}
    first = VISITS.model_copy(update={"name": "first", "measures": some})
    wide = VISITS.model_copy(
        update={"name": "wide", "window": parse_window("2h"), "measures": {"often": some["often"]}}
    )
    rollups = {metric.name: ResolvedRollup(metric, "visits") for metric in (first, wide)}
    project = replace(tables.project, rollups=rollups)
    with Server(project, environ={}) as server, one_person(browser, server) as context:
        page = opened(context, server, f"?hour={hour_of_visits(0):%Y-%m-%dT%H}")
        expect(page.locator("#hour tbody")).to_contain_text("often cy 3, bo 2")
        page = opened(context, server, f"?hour={hour_of_visits(1):%Y-%m-%dT%H}")
        expect(page.locator("#hour tbody")).to_contain_text("often none more than 3 times")
        page = opened(context, server, f"?window=wide:{hour_of_visits(0):%Y-%m-%dT%H:%M}")
        expect(page.locator("#window > p").last).to_contain_text("often cy 3 to 6, bo 2 to 5")
        expect(page.locator("#window tbody tr").first).to_contain_text("cy 3, bo 2")

        page = opened(context, server)
        card, windows = (page.locator(f'[data-metric="{name}"]') for name in ("first", "wide"))
        expect(card.get_by_label("Measure of first")).to_have_value("views")
        views = [
            (f"{hour_of_visits(number):%Y-%m-%d %H:%M}", len(visits)) for number, visits in enumerate((often, rare))
        ]
        expect_drawn(page, "first", solid=[], dashed=views)
        expect(windows.locator("strong")).to_have_text("cy 3 to 6, bo 2 to 5")
        expect(windows.locator("tbody td")).to_have_text(["Fri 1 Mar 00:00", "provisional", "cy 3 to 6, bo 2 to 5"])
        windows.get_by_role("link").click()
        expect(page.locator("#window h3")).to_contain_text("wide: Friday, 1 March 2024")
        card.get_by_label("Measure of first").select_option("visitors")
        expect(card.locator("> .note")).to_contain_text("visitors is an estimate, within about 3 % above 4,096")
        card.get_by_label("Measure of first").select_option("often")
        listed = ["Fri 1 Mar 01:00", "provisional", "none more than 3 times"]
        listed += ["Fri 1 Mar 00:00", "provisional", "cy 3, bo 2"]
        expect(card.locator("tbody td")).to_have_text(listed)
        expect(card.locator(".plot")).to_be_hidden()
        card.get_by_role("link").first.click()
        expect(page.locator("#hour h3")).to_contain_text("Friday, 1 March 2024, 01:00")
        card.get_by_label("Measure of first").select_option("views")
        expect(card.locator(".plot")).to_be_visible()
        expect(card.locator("table")).to_be_hidden()
        expect_drawn(page, "first", dashed=views)


def test_a_line_shows_numbers_alone(context: BrowserContext, server: Server) -> None:
    page = opened(context, server)
    numbers = ["TINYINT", "UBIGINT", "HUGEINT", "INTEGER", "FLOAT", "DOUBLE", "DECIMAL(38,0)", "BOOLEAN"]
    others = ["VARCHAR", "DATE", "TIMESTAMP WITH TIME ZONE", "BIGINT[]", "STRUCT(n INTEGER)"]
    drawn = "types => import('/page/series.js').then(page => types.filter(type => page.isNumeric({ type })))"
    assert page.evaluate(drawn, [*numbers, *others]) == numbers
    text = "import('/page/format.js').then(page => page.measured('007', 'VARCHAR'))"
    assert page.evaluate(text) == "007"
