"""Measures how long the page and the overview of the audits take to open, for 40 sources over a year of hours, and for
a year with 500 problems.

    python -m benchmarks.many_sources

The product's own commits write the projects. A real browser without a screen opens each page in a new context, three
times. *Hours* is the time until each source has its row of hours, *wrong* the time until what is wrong is shown. The
number of rows and problems is checked before a time counts. The server has answered once before, as it has when it has
run for a while.
"""

import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, expect
from rich.console import Console
from rich.table import Table

from serving_layer.http.server import Server
from tests.support.headless_browser import headless_browser
from tests.support.many_sources import Size, renew_reports, write_many_sources

PROJECTS = {
    "40 sources, 80 metrics": Size(sources=40, metrics=80, hours=365 * 24, problems=10, audited=90 * 24),
    "500 problems": Size(sources=1, metrics=4, hours=365 * 24, problems=500, audited=90 * 24),
}
ROUNDS = 3
WAIT_MS = 300_000


def main() -> None:
    table = Table("", "hours, s", "wrong, s", "overview, s", "overview, kB")
    with headless_browser() as browser, tempfile.TemporaryDirectory() as folder:
        for name, size in PROJECTS.items():
            figures = measure(browser, Path(folder) / str(size.sources), size)
            table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    Console(width=120).print(table)


def measure(browser: Browser, folder: Path, size: Size) -> tuple[float, float, float, float]:
    """The median times in seconds, and the size of the overview."""
    written = write_many_sources(folder, size)
    overview = renew_reports(written)
    with Server(written.project, environ={}) as server:
        open_page(browser, server.url, size)
        hours, wrong = zip(*(open_page(browser, server.url, size) for _ in range(ROUNDS)), strict=True)
    opened = [open_overview(browser, overview) for _ in range(ROUNDS)]
    return (
        statistics.median(hours),
        statistics.median(wrong),
        statistics.median(opened),
        overview.stat().st_size / 1000,
    )


def open_page(browser: Browser, url: str, size: Size) -> tuple[float, float]:
    """The times until the rows of hours, and until what is wrong is shown."""
    with browser.new_context(viewport={"width": 1360, "height": 844}) as context:
        page = context.new_page()
        begun = time.perf_counter()
        page.goto(url)
        page.locator("#sources tbody tr").nth(size.sources - 1).locator("path").first.wait_for(
            state="attached", timeout=WAIT_MS
        )
        hours = time.perf_counter() - begun
        page.locator("#wrong li").first.wait_for(timeout=WAIT_MS)
        wrong = time.perf_counter() - begun
        expect(page.locator("#wrong-note")).to_contain_text(f"{size.problems} to mend")
        return hours, wrong


def open_overview(browser: Browser, overview: Path) -> float:
    """The time until the overview of the audits is loaded from its file."""
    with browser.new_context(viewport={"width": 1360, "height": 844}) as context:
        page = context.new_page()
        begun = time.perf_counter()
        page.goto(overview.as_uri())
        expect(page.locator(".verdict")).to_contain_text("block")
        return time.perf_counter() - begun


if __name__ == "__main__":
    main()
