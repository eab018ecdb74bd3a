"""The page, driven in a real browser against a real server on real tables: what a person sees, clicks and types."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from batch_layer.aggregate import MetricTiles
from batch_layer.drift.by_cause import HourDrift
from batch_layer.publication import MetricPublication, Publication
from batch_layer.reports.audit_page import write_page
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts
from hourline_core.ledger.report_pages import report_site
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.rollup import ResolvedRollup
from hourline_core.model.serving import ServeSettings
from hourline_core.runtime.ports import free_ports
from serving_layer.http.server import Server
from speed_layer.source_tables import open_source_tables
from tests.support.headless_browser import NoBrowserError, headless_browser
from tests.support.window_oracle import parse_window

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
SOURCE = Source(
    name="sales", topic="sales", fields={"shop": Field(type="string")}, event_time=EventTime(expression="at")
)
METRICS = {
    "by_shop": Metric(
        name="by_shop",
        source="sales",
        dimensions={"shop": "shop"},
        measures={"n": Measure(kind="count"), "last": Measure.parse("max(n)")},
    ),
    "turnover": Metric(name="turnover", source="sales", dimensions={}, measures={"n": Measure(kind="count")}),
}
STATES = {"by_shop": ("shop", "n", "last"), "turnover": ("n",)}
TYPES = {"shop": pa.string(), "n": pa.int64(), "last": pa.int64()}
TILINGS = {
    name: AggregationPlan(
        SOURCE,
        metric,
        dict.fromkeys(STATES[name], ""),
        pa.schema({"hour": TIMESTAMP, **{column: TYPES[column] for column in STATES[name]}}),
    )
    for name, metric in METRICS.items()
}
SECONDS = 30
Sale = tuple[int, str]
"""In which hour since BASE, in which shop."""


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)


def key(number: int) -> str:
    return f"{hour(number):%Y-%m-%dT%H:00Z}"


class Sales:
    """A project whose tables are written by the product's own commits, without Kafka and Spark."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(serve=ServeSettings(port=free_ports(1)[0]))
        self.project = Project(folder, settings, {"sales": SOURCE}, METRICS)
        self.source_tables = open_source_tables(
            Layout.of(self.project), SOURCE, pa.schema({"shop": pa.string()}), list(TILINGS.values())
        )
        self.sold: list[Sale] = []
        self.sequence = 0

    def sell(self, *sales: Sale, late: int = 0) -> None:
        """One micro-batch; so many events of each of its hours came after it had closed."""
        self.sold += sales
        self.sequence += 1
        source_tables = self.source_tables
        for name, aggregation in TILINGS.items():
            source_tables.append(
                source_tables.provisional[aggregation.name],
                source_tables.provisional_schemas[aggregation.name],
                _tiles(name, sales),
                self.sequence,
            )
        counts = Counter(number for number, _ in sales)
        source_tables.finish(
            ProgressRow(
                self.sequence,
                "topic-id",
                "sales",
                offsets=(),
                counts=RecordCounts(records=len(sales), accepted=len(sales)),
                hours=tuple(HourEvents(hour(number), count, late) for number, count in counts.items()),
                metrics=source_tables.written_metrics(),
                clock=max(hour(number) for number, _ in self.sold) + timedelta(minutes=59),
                started=BASE,
                finished=datetime.now(UTC),
            )
        )

    def publish(self, *numbers: int, blocked: tuple[int, ...] = ()) -> None:
        """Recompute these hours, all of whose audits pass, but for those that are ``blocked``."""
        publication = Publication(self.project)
        chosen, marks = [hour(number) for number in numbers], {hour(number): "" for number in blocked}
        staged, found = [], []
        for name, aggregation in TILINGS.items():
            rows = _tiles(name, [sale for sale in self.sold if sale[0] in numbers])
            drift = [HourDrift(moment, "n", 1.0, 1.0, 1.0) for moment in chosen if moment not in marks]
            tiles = MetricTiles(aggregation, chosen, self.sequence, rows)
            staged.append(MetricPublication(stage_metric(self.project, tiles), marks, drift))
            audit = {
                "audited": BASE,
                "source": "sales",
                "severity": "fail",
                "metric": name,
                "expectation": "expect_sense",
                "about": "n",
            }
            audit |= {"origin": "user", "cutoff": self.sequence}
            found += [
                {**audit, "hour": moment, "success": moment not in marks, "found": "no sense in it"}
                for moment in chosen
            ]
            rows = pa.Table.from_pylist(
                [{**one, "publication": publication.number} for one in found if one["metric"] == name], QUALITY_SCHEMA
            )
            write_page(report_site(self.project), publication.number, "sales", name, rows, rows.slice(0, 0), BASE)
        publication.publish(staged, pa.Table.from_pylist(found, QUALITY_SCHEMA), BASE)


def _tiles(name: str, sales: tuple[Sale, ...] | list[Sale]) -> pa.Table:
    counts = Counter(sales if name == "by_shop" else [(number, "") for number, _ in sales])
    rows = [
        {"hour": hour(number), "shop": shop, "n": count, "last": number} for (number, shop), count in counts.items()
    ]
    return pa.Table.from_pylist(
        [{column: row[column] for column in TILINGS[name].schema.names} for row in rows], TILINGS[name].schema
    )


DAYS_BESIDE_CELLS = """
    [...document.querySelectorAll('#strip tbody th')].every((day) => {
        day.lastChild.textContent = "30 Nov"; // as wide as they come
        const text = document.createRange();
        text.selectNodeContents(day);
        return text.getBoundingClientRect().right <= day.nextSibling.getBoundingClientRect().left;
    })
"""
ONE_METRIC_IS_WIDE = """
    (() => {
        const [metric, ...others] = document.querySelectorAll('.metric');
        others.forEach((other) => other.remove());
        return metric.clientWidth > 0.95 * document.getElementById("metrics").clientWidth;
    })()
"""
STOPPED = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "status of 503", "status of 504")
"""What the browser says of requests to a server that is being stopped."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with headless_browser() as browser:
            yield browser
    except NoBrowserError as error:
        assert not os.environ.get("CI"), error
        pytest.skip(str(error))


@pytest.fixture
def sales(tmp_path: Path) -> Sales:
    """Five hours: the first three final, one of them with a late sale on top, one blocked, one provisional."""
    sales = Sales(tmp_path / "sales")
    sales.sell(*((number, shop) for number in range(5) for shop in ("north", "north", "<b>south</b>")))
    sales.publish(0, 1, 2, 3, blocked=(3,))
    sales.sell((1, "north"), late=1)
    return sales


@pytest.fixture
def server(sales: Sales) -> Iterator[Server]:
    with Server(sales.project, environ={}) as server:
        yield server


@pytest.fixture
def context(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    with one_person(browser, server) as context:
        yield context


@contextmanager
def one_person(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    """A person to whom nothing goes wrong, and whose browser asks nobody but the server for anything."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        asked: list[str] = []
        wrong: list[str] = []
        allowed = {urlsplit(server.url).netloc}
        context.on("request", lambda request: asked.append(request.url))
        context.on(
            "console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None
        )
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        context.set_default_timeout(SECONDS * 1000)
        expect.set_options(timeout=SECONDS * 1000)
        yield context
        assert asked
        # The browser says so itself when a request fails; a server that was stopped on purpose is not a fault of the
        # page.
        assert not [text for text in wrong if not any(excuse in text for excuse in STOPPED)]
        assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == allowed


def opened(context: BrowserContext, server: Server, query: str = "") -> Page:
    page = context.new_page()
    page.goto(f"{server.url}/{query}")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#drift")).not_to_contain_text("looking")
    expect(page.locator("#late")).not_to_contain_text("looking")
    return page


def cell(page: Page, number: int) -> str:
    """The state that the strip shows of an hour."""
    return page.locator(f'#strip [data-hour="{key(number)}"]').get_attribute("data-state") or ""


def drawn(page: Page, metric: str) -> dict[str, list[tuple[str, int]]]:
    """What a metric's chart shows: its solid and its dashed part, as (time, value)."""
    found = page.locator(f'[data-metric="{metric}"] .plot').evaluate(
        "plot => plot.data.slice(0, 2).map(({ x, y }) => x.map((time, index) => [time, y[index]]).filter(([, value]) => value !== null))"
    )
    return {
        part: [(time, value) for time, value in points] for part, points in zip(("solid", "dashed"), found, strict=True)
    }


def expect_dashed(page: Page, metric: str, wanted: list[tuple[str, int]]) -> None:
    """Wait for it: what the page drew for another choice may be finished just before."""
    deadline = time.monotonic() + SECONDS
    while (found := drawn(page, metric)["dashed"]) != wanted and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert found == wanted


def points(sales: Sales, *numbers: int, shop: str | None = None) -> list[tuple[str, int]]:
    sold = Counter(number for number, where in sales.sold if shop in (None, where))
    return [(f"{hour(number):%Y-%m-%d %H:%M}", sold[number]) for number in numbers]


def test_hours_stand_in_their_states_and_what_may_change_is_dashed(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    assert [cell(page, number) for number in range(5)] == ["final", "revised", "final", "blocked", "provisional"]
    assert drawn(page, "turnover") == {"solid": points(sales, 0, 2), "dashed": points(sales, 0, 1, 2, 3, 4)}
    dashed = page.locator('[data-metric="turnover"] .plot path.js-line').nth(-1)
    assert dashed.evaluate("line => getComputedStyle(line).strokeDasharray") not in ("", "none")
    expect(page.locator("#quality tbody tr")).to_have_count(2)  # the blocked hour of both metrics
    expect(page.locator("#facts")).to_contain_text("Mon 2 Mar 12:59")


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
    page.wait_for_function(
        "document.querySelector('[data-metric=turnover] .plot').data[0].y.filter(value => value !== null).length === 5"
    )
    assert drawn(page, "turnover") == {"solid": points(sales, 0, 1, 2, 3, 4), "dashed": points(sales, 4, 5)}
    expect(page.locator("#quality")).to_contain_text("All audited hours in this range passed")
    assert page.evaluate("window.same"), "it was loaded again"


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
        assert drawn(page, "by_day") == {
            "solid": [(starts[1], days[1])],
            "dashed": list(zip(starts, days, strict=True)),
        }
        rolling = {number: sum(sold[one] for one in range(number, number + 3)) for number in range(-2, 32)}
        shown = drawn(page, "rolling")
        assert dict(shown["solid"]) | dict(shown["dashed"]) == {
            f"{hour(number):%Y-%m-%d %H:%M}": value for number, value in rolling.items() if value
        }
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
        expect_dashed(page, "by_day", list(zip(starts[1:], days[1:], strict=True)))
        assert drawn(page, "by_day")["solid"] == list(zip(starts[:2], days[:2], strict=True))
        folder = Path(os.environ.get("HOURLINE_SCREENSHOTS") or tmp_path)
        for width in (390, 1440):
            with browser.new_context(viewport={"width": width, "height": 844}) as narrow:
                page = opened(narrow, server, "?window=by_day:2026-03-01T15:00")
                expect(page.locator("#window h3")).to_be_visible()
                page.screenshot(path=folder / f"windows-{width}.png", full_page=True)
                assert page.evaluate("document.documentElement.scrollWidth") == width, "nothing sticks out"


def test_a_filter_reaches_the_metrics_that_have_the_dimension_and_goes_away_again(
    context: BrowserContext, server: Server, sales: Sales
) -> None:
    page = opened(context, server)
    choice = page.get_by_label("Filter by shop")
    expect(choice.locator("option")).to_have_text(["shop", "<b>south</b>", "north"])  # text, and never markup
    choice.select_option("<b>south</b>")
    expect(page.locator("#metrics-note")).to_have_text("where shop is <b>south</b>")
    expect_dashed(page, "by_shop", points(sales, 0, 1, 2, 3, 4, shop="<b>south</b>"))
    expect_dashed(page, "turnover", points(sales, 0, 1, 2, 3, 4))
    expect(page.locator('[data-metric="turnover"]')).to_contain_text("not filtered by shop")
    page.get_by_label("Filter by shop").select_option("north")  # either
    expect(page.locator("#metrics-note")).to_contain_text("north")
    expect_dashed(page, "by_shop", points(sales, 0, 1, 2, 3, 4))
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
    assert drawn(other, "by_shop") == drawn(page, "by_shop")
    other.goto(f"{server.url}/?to=2026-03-02T10")
    expect(other.locator("#strip button")).to_have_count(2)
    for _ in range(4):
        page.go_back()
    expect(page.locator("#metrics-note")).to_have_text("all dimensions together")
    expect(page.locator("#hour")).to_be_hidden()
    expect(page.get_by_role("button", name="3 days")).to_have_attribute("aria-pressed", "true")


def test_an_hour_tells_its_audits_and_links_to_their_reports(context: BrowserContext, server: Server) -> None:
    page = opened(context, server, "?hour=2026-03-02T11")
    expect(page.locator("#hour tbody tr")).to_have_count(2)
    expect(page.locator("#hour")).to_contain_text("did not pass its audit")
    for report in (
        page.locator("#hour").get_by_role("link", name="report").first,
        page.locator("#quality").get_by_role("link", name="report").first,
    ):
        with context.expect_page() as new:
            report.click()
        expect(new.value.locator("h1")).to_have_text("by_shop: results 4 hours from 2 Mar 2026, 08:00 UTC")


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


def test_it_fits_a_phone_and_the_dark(
    browser: Browser, context: BrowserContext, server: Server, tmp_path: Path
) -> None:
    """Leaves screenshots to look at: in the folder that HOURLINE_SCREENSHOTS names, else in pytest's."""
    folder = Path(os.environ.get("HOURLINE_SCREENSHOTS") or tmp_path)
    opened(context, server).close()
    backgrounds = set()
    for name, width, scheme in (("light", 1360, "light"), ("dark", 1360, "dark"), ("phone", 390, "light")):
        with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme) as other:  # type: ignore[arg-type] # of these
            page = opened(other, server, "?hour=2026-03-02T09")
            expect(page.locator("#hour h3")).to_be_visible()
            page.screenshot(path=folder / f"{name}.png", full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth") == width, "nothing sticks out"
            assert page.evaluate(DAYS_BESIDE_CELLS), "a day's name lies under its hours"
            assert page.evaluate(ONE_METRIC_IS_WIDE), "a metric alone leaves a hole beside it"
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2


def test_before_the_first_event_it_says_so_and_then_shows_it(browser: Browser, tmp_path: Path) -> None:
    sales = Sales(tmp_path / "empty")
    with Server(sales.project, environ={}) as server, browser.new_context() as context:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#strip")).to_contain_text("No event has been accepted yet", timeout=SECONDS * 1000)
        sales.sell((0, "north"))
        expect(page.locator("#strip button")).to_have_count(1, timeout=SECONDS * 1000)


def test_its_files_come_with_a_strict_policy_and_the_charts_library_is_kept_for_ever(
    context: BrowserContext, server: Server
) -> None:
    opened(context, server)
    html = context.request.get(server.url)
    assert "script-src 'self';" in html.headers["content-security-policy"]
    assert "https:" not in html.text()
    name = html.text().split("/page/plotly-")[1].split('"')[0]
    library = context.request.get(f"{server.url}/page/plotly-{name}")
    assert library.ok
    assert "immutable" in library.headers["cache-control"]
    assert library.headers["content-encoding"] == "gzip"
    own = context.request.get(f"{server.url}/page/main.js")
    assert (own.headers["cache-control"], own.headers["content-type"].split(";")[0]) == ("no-cache", "text/javascript")
    assert context.request.get(f"{server.url}/page/../page_routes.py").status == 404
    assert context.request.get(f"{server.url}/page/%2e%2e/page_routes.py").status == 404
