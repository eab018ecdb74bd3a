"""The documentation builds without a warning, and no built page loads anything from another host."""

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
LOADED = {
    "script": "src",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "embed": "src",
    "object": "data",
    "image": "href",
    "use": "href",
}
"""By tag, the attribute whose address a browser loads with the page."""
HARMLESS_LINKS = {"canonical", "prev", "next", "alternate", "edit"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Addresses(HTMLParser):
    """Collects the addresses of what a page loads: scripts, styles, fonts and images, be they in a style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        if tag in LOADED:
            self.found += [given.get(LOADED[tag], ""), given.get("xlink:href", "")]
        if tag == "link" and not set(given.get("rel", "").split()) <= HARMLESS_LINKS:
            self.found.append(given.get("href", ""))
        self.found += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.found += in_style(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += in_style(data)


def in_style(text: str) -> list[str]:
    """The addresses in CSS."""
    addresses = [part.partition(")")[0].strip(" '\"") for part in text.split("url(")[1:]]
    return addresses + [part.split(";")[0].strip(" '\"") for part in text.split("@import")[1:] if "url(" not in part]


def elsewhere(addresses: list[str]) -> Iterator[str]:
    return (address for address in addresses if urlsplit(address).netloc)


def test_an_address_of_another_host_is_found() -> None:
    page = """<script src="//one.example/x.js"></script><link rel="stylesheet" href="https://two.example/x.css">
        <style>@font-face {src: url('https://three.example/x.woff')}</style><a href="https://fine.example">x</a>
        <img src="local.png" srcset="local.png 1x, https://four.example/x.png 2x"><style>@import "//five.example";</style>"""
    hosts = {urlsplit(address).netloc for address in elsewhere(Addresses(page).found)}
    assert hosts == {"one.example", "two.example", "three.example", "four.example", "five.example"}


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    loaded = {page.name: list(elsewhere(Addresses(page.read_text(encoding="utf-8")).found)) for page in pages}
    assert not {name: addresses for name, addresses in loaded.items() if addresses}


def test_no_style_or_picture_loads_anything_from_another_host(site: Path) -> None:
    files = [file for kind in ("css", "svg") for file in sorted(site.rglob(f"*.{kind}"))]
    loaded = {file.name: list(elsewhere(in_style(file.read_text(encoding="utf-8")))) for file in files}
    assert not {name: addresses for name, addresses in loaded.items() if addresses}


def test_the_generator_is_not_part_of_the_site(site: Path) -> None:
    assert not list(site.rglob("*.py"))
