"""Measures how long the page and the overview of the audits take to open: for 40 sources over a year of hours, and for
a year with 500 problems.

    python -m benchmarks.many_sources [--full]

The product's own commits write the projects: 8,760 hours of each source, two metrics of each (or four of one), and
audits of 90 days. A real browser without a screen opens the page in a new context. *What is wrong* is the time until it
is shown, *each hour* the time until each source has its row of hours, from the moment that the address is entered. The
server is a process of its own; its CPU time is that of all answers until the page asks for no more. It has answered
once before, as it has when it has run for a while. No Kafka runs. The overview of the audits is a file that a
publication has written.

Before a time counts, what is shown is compared with what was written: the number of problems, and for each source how
many of its hours are in which state. There are three rounds, and ten with `--full`.
"""

import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from benchmarks.figures import Figure
from benchmarks.processes import cpu_seconds
from benchmarks.running import run
from hourline_core.model import Project
from serving_layer.http.server import Server
from tests.support.headless_browser import headless_browser
from tests.support.many_sources import NOW, ManySources, Size, renew_reports, states_of, write_many_sources

YEAR, AUDITED = 365 * 24, 90 * 24
PROJECTS = {
    "40 sources": Size(sources=40, metrics=80, hours=YEAR, problems=10, audited=AUDITED),
    "500 problems": Size(sources=1, metrics=4, hours=YEAR, problems=500, audited=AUDITED),
}
ROUNDS = {False: 3, True: 10}
SHOWN_HOURS = 72
"""Of each source, on a page that was just opened."""
QUIET_SECONDS = 1.0
"""A page that has asked for nothing for that long has all that it shows."""
PATIENCE_MS = 300_000
SHOWN = ("#wrong li", "#sources tbody tr:last-child svg path")
"""What is there once what is wrong is shown, and once each hour is."""
NOTE_TIMES = f"""
    globalThis.times = {{}}; // by selector, the milliseconds from the navigation until it was there first
    new MutationObserver(() => {{
        for (const one of {list(SHOWN)}) if (document.querySelector(one)) times[one] ??= performance.now();
    }}).observe(document, {{ childList: true, subtree: true }});
"""
SECONDS, CPU_SECONDS = 1.0, 0.7
"""The goals for the time of opening, and for the CPU time of the server."""


def measure(full: bool) -> Iterator[Figure | str]:
    with headless_browser() as browser, tempfile.TemporaryDirectory() as folder:
        for number, (name, size) in enumerate(PROJECTS.items()):
            yield from opening(browser, Path(folder) / str(number), name, size, ROUNDS[full])


def opening(browser: Browser, folder: Path, name: str, size: Size, rounds: int) -> Iterator[Figure | str]:
    """The figures of one project."""
    written = write_many_sources(folder, size)
    overview = renew_reports(written)
    with serving(written.project) as (url, pid):
        open_page(browser, url, pid, written)
        wrong, hours, used = zip(*(open_page(browser, url, pid, written) for _ in range(rounds)), strict=True)
    yield figure(f"{name}, a year of hours: what is wrong is shown", "s", wrong, SECONDS)
    yield figure(f"{name}, a year of hours: each hour is shown", "s", hours, SECONDS)
    yield figure(f"{name}, a year of hours: opening the page, CPU time of the server", "CPU s", used, CPU_SECONDS)
    opened = [open_overview(browser, overview, size) for _ in range(rounds)]
    yield figure(f"{name}, a year of hours: the overview of the audits is shown", "s", opened, SECONDS)
    yield f"{name}: the overview has {overview.stat().st_size / 1000:,.0f} kB."


def figure(what: str, unit: str, values: tuple[float, ...] | list[float], goal: float) -> Figure:
    return Figure(what=what, unit=unit, ours=list(values), peer=[], goal=goal)


@contextmanager
def serving(project: Project) -> Iterator[tuple[str, int]]:
    """The address and the process of a server, half an hour after the newest hour has ended."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(project, theirs))
    process.start()
    try:
        yield ours.recv(), process.pid or 0
    finally:
        ours.send("stop")
        process.join()


def serve(project: Project, asked: Connection) -> None:
    """Serve until the other end says to stop."""
    with Server(project, lambda: NOW, environ={}) as server:
        asked.send(server.url)
        asked.recv()


def open_page(browser: Browser, url: str, pid: int, written: ManySources) -> tuple[float, float, float]:
    """The times until what is wrong and until the hours are shown, and the CPU time of the server until all is."""
    before = sum(cpu_seconds(pid).values())
    with browser.new_context(viewport={"width": 1360, "height": 844}) as context:
        page = context.new_page()
        asked = [time.monotonic()]
        page.on("request", lambda _: asked.append(time.monotonic()))
        page.add_init_script(NOTE_TIMES)
        page.goto(url)
        for selector in SHOWN:
            page.locator(selector).first.wait_for(state="attached", timeout=PATIENCE_MS)
        check(page, written)
        while time.monotonic() < asked[-1] + QUIET_SECONDS:
            page.wait_for_timeout(100)
        wrong, hours = (page.evaluate("selector => times[selector]", selector) / 1000 for selector in SHOWN)
        return wrong, hours, sum(cpu_seconds(pid).values()) - before


def check(page: Page, written: ManySources) -> None:
    """Compare what is shown with what was written."""
    problems = page.locator("#wrong li", has_text="blocks")
    if (more := page.locator("#wrong .more")).count():
        more.click()
    expect(problems).to_have_count(written.size.problems, timeout=PATIENCE_MS)
    rows = page.locator("#sources tbody tr").evaluate_all(
        "rows => rows.map((row) => [row.dataset.source, row.querySelector('svg').getAttribute('aria-label')])"
    )
    shown = {
        source: Counter({state: int(count) for count, state in map(str.split, text.split(", "))})
        for source, text in rows
    }
    assert shown == {source: Counter(states_of(written, source, SHOWN_HOURS)) for source in written.project.sources}, (
        "the page shows other states of hours than were written"
    )


def open_overview(browser: Browser, overview: Path, size: Size) -> float:
    """The time until the overview of the audits is loaded from its file."""
    with browser.new_context(viewport={"width": 1360, "height": 844}) as context:
        page = context.new_page()
        begun = time.perf_counter()
        page.goto(overview.as_uri())
        expect(page.locator(".verdict")).to_contain_text(f"{size.problems} problem")
        return time.perf_counter() - begun


if __name__ == "__main__":
    run("many_sources", measure)
