"""The page as a person sees it in a browser, and what its strip and charts show."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect

from serving_layer.http.server import Server
from tests.support.sales import Sales, hour, key

SECONDS = 30
STOPPED = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "status of 503", "status of 504")
"""What the browser says of requests to a server that is being stopped."""


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
    expect(page.locator("#strip")).not_to_contain_text("looking")
    return page


def scroll_to(page: Page, report: str) -> None:
    """Have a report on the screen, which asks for it, and wait until it is drawn."""
    page.locator(f"#{report}").scroll_into_view_if_needed()
    expect(page.locator(f"#{report}")).not_to_contain_text("looking")


def cell(page: Page, number: int) -> str:
    """The state that the strip shows of an hour."""
    return page.locator(f'#strip [data-hour="{key(number)}"]').get_attribute("data-state") or ""


def drawn(page: Page, metric: str) -> dict[str, list[tuple[str, int]]]:
    """What a metric's chart shows, as (time, value): its `solid` and its `dashed` part, and `both` without repetition."""
    found = page.locator(f'[data-metric="{metric}"] .plot').evaluate(
        "plot => (plot.data ?? [{ x: [] }, { x: [] }]).slice(0, 2).map(({ x, y }) => x.map((time, index) => [time, y[index]]).filter(([, value]) => value !== null))"
    )
    solid, dashed = ([(time, value) for time, value in points] for points in found)
    return {"solid": solid, "dashed": dashed, "both": sorted({*solid, *dashed})}


def expect_drawn(page: Page, metric: str, **wanted: list[tuple[str, int]]) -> None:
    """Wait until these parts of a metric's chart are as wanted. What the page drew before may still be there.

    The page's policy forbids what Playwright's own ``wait_for_function`` does when it looks again.
    """
    deadline = time.monotonic() + SECONDS
    while (found := _parts(page, metric, wanted)) != wanted and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert found == wanted


def _parts(page: Page, metric: str, names: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
    shown = drawn(page, metric)
    return {name: shown[name] for name in names}


def points(sales: Sales, *numbers: int, shop: str | None = None) -> list[tuple[str, int]]:
    sold = Counter(number for number, where in sales.sold if shop in (None, where))
    return [(f"{hour(number):%Y-%m-%d %H:%M}", sold[number]) for number in numbers]
