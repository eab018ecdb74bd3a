"""The jars of Spark and of the broker.

`jars.lock` lists them. They are downloaded in parallel into a cache, and verified by SHA-256. Set-up downloads all of
them with ``python -m hourline_core.runtime.jars``. Two environment variables are settings:

    HOURLINE_CACHE    the folder of the cache (default: ``$XDG_CACHE_HOME/hourline``, else ``~/.cache/hourline``)
    HOURLINE_MAVEN    the URL of a Maven repository, https, http or file (default: Maven Central)
"""

import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal, get_args
from uuid import uuid4

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hourline_core.child_environment import NO_HOME, home_folder
from hourline_core.errors import HourlineError, SetupError
from hourline_core.runtime.download import download

JarSet = Literal["spark", "broker"]
LOCK = Path(__file__).with_name("jars.lock")
MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_PARALLEL = 8


@dataclass(frozen=True)
class Jar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def repository_path(self) -> str:
        """Its path below the URL of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


def locked_jars(which: str, lock: Path = LOCK) -> list[Jar]:
    """The jars of one set in the lock file, in its order. In Hourline's own lock file, a set is a JarSet."""
    lines = (
        line.split()
        for line in lock.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    )
    chosen = ((*coordinates.split(":"), sha256) for jar_set, coordinates, sha256 in lines if jar_set == which)
    return [Jar(group, artifact, version, sha256) for group, artifact, version, sha256 in chosen]


def fetch_jars(which: str, lock: Path = LOCK) -> list[Path]:
    """The paths of one set of jars. All are verified; those that are missing in the cache are downloaded.

    Several processes may call this at once. Shows progress on stderr while it downloads. Raises SetupError when a jar
    cannot be downloaded, has a wrong checksum, or cannot be stored.
    """
    jars = locked_jars(which, lock)
    folder = cache_folder() / "jars"
    if os.pathsep in str(folder):
        raise SetupError(
            f"Java takes {folder} for several folders, because of '{os.pathsep}'; set HOURLINE_CACHE to another"
        )
    with ThreadPoolExecutor(_PARALLEL) as pool:
        # Hashing every time takes a tenth of a second, and needs no stored state that could be wrong.
        valid = list(pool.map(lambda jar: _is_valid(folder / jar.file_name, jar), jars))
    missing = [jar for jar, is_valid in zip(jars, valid, strict=True) if not is_valid]
    if missing:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch(missing, folder, f"{which} jars")
        except OSError as error:
            raise SetupError(
                f"the jars cannot be stored in {folder}: {error.strerror or error}; "
                "make it writable, or set HOURLINE_CACHE to another folder"
            ) from error
    return [folder / jar.file_name for jar in jars]


def cache_folder() -> Path:
    """The folder for downloads. Raises SetupError when there is none."""
    if named := os.environ.get("HOURLINE_CACHE"):
        return Path(named).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if caches.is_absolute():  # the XDG specification says to ignore a relative path
        return caches / "hourline"
    if (home := home_folder()) == NO_HOME:
        raise SetupError("there is no home folder to keep the jars in; set HOURLINE_CACHE to a folder")
    return Path(home) / ".cache" / "hourline"


def _repository() -> str:
    repository = os.environ.get("HOURLINE_MAVEN") or MAVEN_CENTRAL
    if not repository.startswith(("https://", "http://", "file://")):
        raise SetupError(
            f"HOURLINE_MAVEN is '{repository}'; it must be a URL that begins with https://, http:// or file://"
        )
    return repository.rstrip("/")


def _is_valid(path: Path, jar: Jar) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:  # it does not exist; any other error occurs again, and is reported, when it is fetched
        return False


def _fetch(jars: list[Jar], folder: Path, title: str) -> None:
    console = Console(stderr=True)
    for jar in jars:
        if (folder / jar.file_name).exists():
            console.print(
                f"{folder / jar.file_name} is damaged (another SHA-256 than in jars.lock); fetching it again",
                soft_wrap=True,
            )
    repository = _repository()
    columns = (
        TextColumn("fetching {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[size]:.0f} MB"),
    )
    stop = Event()
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(_PARALLEL) as pool:
        task = progress.add_task(title, total=len(jars), size=0.0)
        size = 0
        fetches = [pool.submit(_fetch_one, jar, repository, folder, stop) for jar in jars]
        try:
            for fetch in fetches:
                size += fetch.result()
                progress.update(task, advance=1, size=size / 1e6)
        except BaseException:
            stop.set()  # the other downloads would otherwise continue to their own time limits
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch_one(jar: Jar, repository: str, folder: Path, stop: Event) -> int:
    """Download one jar, verify it, and then rename it to its final name. Returns its size in bytes."""
    url = f"{repository}/{jar.repository_path}"
    part = folder / f".{jar.file_name}.{uuid4().hex}.part"
    try:
        sha256 = download(url, part, stop)
        if sha256 != jar.sha256:
            raise SetupError(
                f"{jar.file_name} has a wrong checksum: jars.lock expects SHA-256 {jar.sha256}, {url} gave {sha256}; "
                "the file was deleted; run again, or set HOURLINE_MAVEN to a repository that can be trusted"
            )
        size = part.stat().st_size
        part.replace(folder / jar.file_name)
        return size
    finally:
        part.unlink(missing_ok=True)


def main() -> int:
    try:
        for which in get_args(JarSet):
            fetch_jars(which)
    except HourlineError as error:
        Console(stderr=True).print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
