"""The reports as files, and what a browser makes of them."""

import re
from collections.abc import Collection
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import serving_layer
from batch_layer.reports.audit_page import write_page
from batch_layer.reports.overview import write_overview
from hourline_core.ledger.report_pages import page_name, page_path
from hourline_core.model import Project
from tests.support.quality_rows import HOUR, START, problems_of, shop, table_of

NOW = START + timedelta(days=30)


class Page(HTMLParser):
    """What a browser makes of a page: its elements, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.text += " "
        self.elements.append((tag, {name: value or "" for name, value in attributes}))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def links(self) -> list[str]:
        return [attributes["href"] for tag, attributes in self.elements if tag == "a" and "href" in attributes]


def overview(
    site: Path,
    rows: list[dict[str, Any]],
    *blocked: tuple[str, int],
    now: datetime = NOW,
    changed: Collection[str] | None = None,
    project: Project | None = None,
) -> Page:
    """The overview of ``rows``, while the hours in ``blocked`` are blocked. ``changed`` names the sources whose trends
    are written again; None: all. The project is the shop by default.
    """
    marks = [(metric, START + hour * HOUR) for metric, hour in blocked]
    return Page(
        write_overview(site, project or shop(), table_of(rows), problems_of(rows, blocked), marks, now, changed)
    )


def audit(
    site: Path,
    rows: list[dict[str, Any]],
    past: list[dict[str, Any]] | None = None,
    now: datetime = NOW,
    project: Project | None = None,
) -> Page:
    """The page of the audit that found ``rows`` in ``project``, the shop by default."""
    return Page(write_page(site, project or shop(), 7, "pages", "views", table_of(rows), table_of(past or []), now))


def put_page(site: Path, publication: int, metric: str | None = "views") -> Path:
    """Put an empty page of an audit where the overview looks for it."""
    path = site / page_path(publication, page_name("pages", metric))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def loaded_from_elsewhere(site: Path, page: Page) -> list[object]:
    """What a browser would ask another host or file for, scripts and frames among it."""
    style = (site / "style.css").read_text()
    loading = [
        item
        for item in page.elements
        if item[0] != "a" and any("//" in item[1].get(name, "") for name in ("src", "href", "srcset", "data"))
    ]
    return [
        *loading,
        *re.findall(r"@import|url\(|https?:", style),
        *(page.tags & {"script", "iframe", "img", "object"}),
    ]


def has_icon_of_the_page(page: Page) -> bool:
    """Whether it brings along the icon of the server's page: a browser asks the server for one that is not named, and
    gets 404.
    """
    icons = [attributes for tag, attributes in page.elements if tag == "link" and attributes.get("rel") == "icon"]
    media, _, data = icons[0]["href"].partition(",") if len(icons) == 1 else ("", "", "")
    svg = (Path(serving_layer.__file__).parent / "http" / "page" / "icon.svg").read_text(encoding="utf-8")
    return media == "data:image/svg+xml" and unquote(data) == svg.strip().replace('"', "'")
