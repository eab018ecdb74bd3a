"""A real browser, a real server on real tables, and a person who opens the page."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from serving_layer.http.server import Server
from tests.support.headless_browser import NoBrowserError, headless_browser
from tests.support.page_in_browser import one_person
from tests.support.sales import Sales


@pytest.fixture(scope="package")
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
