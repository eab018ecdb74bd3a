"""The page fits a phone as well as a wide screen, light or dark, and its files come with a strict policy."""

import os
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, expect

from serving_layer.http.server import Server
from tests.support.page_in_browser import opened

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
