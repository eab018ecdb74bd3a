"""The locked jars: fetched from a repository, verified, reused, and one clear sentence for each way this fails."""

import hashlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import get_args

import pytest

from hourline_core.errors import SetupError
from hourline_core.runtime.jars import JarSet, fetch_jars, locked_jars

CONTENT = {"one": b"the first jar" * 50_000, "two": b"the second jar"}
FIRST = "org/example/one/1.0/one-1.0.jar"


class Repository:
    """A Maven repository on this machine, which can be told how to misbehave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[str] = []
        self.troubles: list[str] = []
        for name, content in CONTENT.items():
            jar = folder / f"org/example/{name}/1.0/{name}-1.0.jar"
            jar.parent.mkdir(parents=True)
            jar.write_bytes(content)


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, repository: Repository) -> None:
        self.repository = repository
        super().__init__(*arguments, directory=str(repository.folder))  # type: ignore[arg-type] # what the server hands over

    def do_GET(self) -> None:
        self.repository.requests.append(self.path)
        trouble = self.repository.troubles.pop() if self.repository.troubles else None
        if trouble == "busy":
            self.send_error(503)
        elif trouble == "cut short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
        else:
            super().do_GET()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(tmp_path / "repository")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, repository=repository)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("HOURLINE_MAVEN", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("HOURLINE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr("hourline_core.runtime.download._PAUSES_SECONDS", (0, 0, 0))
        yield repository
        server.shutdown()
        thread.join()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    lock = tmp_path / "jars.lock"
    lock.write_text(
        f"# a comment\n\nspark  org.example:one:1.0  {sums['one']}\nspark org.example:two:1.0 {sums['two']}\nbroker  a:b:1  00\n"
    )
    return lock


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "jars").iterdir())


def test_jars_are_fetched_once_and_come_from_the_cache_from_then_on(
    repository: Repository, lock: Path, tmp_path: Path
) -> None:
    jars = fetch_jars("spark", lock)
    assert [jar.read_bytes() for jar in jars] == list(CONTENT.values())
    assert len(repository.requests) == 2
    assert fetch_jars("spark", lock) == jars
    assert len(repository.requests) == 2
    assert cached(tmp_path) == ["one-1.0.jar", "two-1.0.jar"]


def test_a_damaged_jar_in_the_cache_is_fetched_again_and_that_is_said(
    repository: Repository, lock: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one = fetch_jars("spark", lock)[0]
    one.write_bytes(one.read_bytes()[:-1])
    assert fetch_jars("spark", lock)[0].read_bytes() == CONTENT["one"]
    assert repository.requests.count(f"/{FIRST}") == 2
    assert f"{one} is damaged" in capfd.readouterr().err


def test_a_jar_with_another_checksum_is_refused_and_not_kept(
    repository: Repository, lock: Path, tmp_path: Path
) -> None:
    (repository.folder / FIRST).write_bytes(b"another")
    expected, got = hashlib.sha256(CONTENT["one"]).hexdigest(), hashlib.sha256(b"another").hexdigest()
    with pytest.raises(
        SetupError, match=rf"one-1\.0\.jar has a wrong checksum: .*{expected}.*{got}; the file was deleted; run again"
    ):
        fetch_jars("spark", lock)
    assert "one-1.0.jar" not in cached(tmp_path)
    assert not [name for name in cached(tmp_path) if name.endswith(".part")]


def test_a_jar_that_the_repository_does_not_have(repository: Repository, lock: Path) -> None:
    (repository.folder / FIRST).unlink()
    with pytest.raises(SetupError, match=r"http://127.*one-1\.0\.jar does not exist; set HOURLINE_MAVEN"):
        fetch_jars("spark", lock)
    assert repository.requests.count(f"/{FIRST}") == 1


@pytest.mark.parametrize("trouble", ["busy", "cut short"])
def test_a_passing_trouble_is_tried_again(repository: Repository, lock: Path, trouble: str) -> None:
    repository.troubles = [trouble, trouble]
    assert [jar.read_bytes() for jar in fetch_jars("spark", lock)] == list(CONTENT.values())
    assert len(repository.requests) == 4


def test_a_trouble_that_stays(repository: Repository, lock: Path) -> None:
    repository.troubles = ["busy"] * 6
    with pytest.raises(SetupError, match=r"cannot be fetched: HTTP status 503; check the network"):
        fetch_jars("spark", lock)


def test_a_repository_that_nobody_answers_for(
    repository: Repository, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOURLINE_MAVEN", "http://127.0.0.1:1")
    with pytest.raises(
        SetupError,
        match=r"cannot be fetched: Connection refused; check the network and the proxy, or set HOURLINE_MAVEN",
    ):
        fetch_jars("spark", lock)


def test_a_folder_is_a_repository_too(repository: Repository, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURLINE_MAVEN", repository.folder.as_uri())
    assert [jar.read_bytes() for jar in fetch_jars("spark", lock)] == list(CONTENT.values())
    (repository.folder / FIRST).unlink()
    Path(fetch_jars("spark", lock)[0]).unlink()
    with pytest.raises(SetupError, match=r"file:///.*one-1\.0\.jar does not exist"):
        fetch_jars("spark", lock)
    assert not repository.requests


def test_a_repository_that_is_no_url(repository: Repository, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURLINE_MAVEN", "mirror.example.org/maven")
    with pytest.raises(
        SetupError, match=r"HOURLINE_MAVEN is 'mirror\.example\.org/maven'; it must be a URL that begins with https://"
    ):
        fetch_jars("spark", lock)


def test_a_cache_that_cannot_be_written(repository: Repository, lock: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(
        SetupError, match=r"the jars cannot be stored in .*cache/jars: .*set HOURLINE_CACHE to another folder"
    ):
        fetch_jars("spark", lock)


def test_several_processes_may_fetch_into_one_cache(repository: Repository, lock: Path, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from hourline_core.runtime.jars import fetch_jars; fetch_jars('spark', Path(sys.argv[1]))"
    processes = [subprocess.Popen([sys.executable, "-c", code, lock]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert cached(tmp_path) == ["one-1.0.jar", "two-1.0.jar"]
    assert fetch_jars("spark", lock)[0].read_bytes() == CONTENT["one"]


@pytest.mark.parametrize(
    ("xdg", "folder"), [("{home}/xdg", "xdg/hourline"), ("relative", ".cache/hourline"), ("", ".cache/hourline")]
)
def test_the_cache_is_where_the_system_keeps_caches(
    repository: Repository, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: str, folder: str
) -> None:
    monkeypatch.delenv("HOURLINE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", xdg.format(home=tmp_path))
    assert fetch_jars("spark", lock)[0] == tmp_path / folder / "jars" / "one-1.0.jar"


@pytest.mark.parametrize("which", get_args(JarSet))
def test_the_lock_of_the_project_names_each_jar_once_with_its_sha256(which: JarSet) -> None:
    jars = locked_jars(which)
    assert jars
    assert len({(jar.group, jar.artifact) for jar in jars}) == len(jars)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)


def test_a_cache_that_java_takes_for_two_folders_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURLINE_CACHE", str(tmp_path / "a:b"))
    with pytest.raises(
        SetupError, match=r"Java takes .*a:b/jars for several folders, because of ':'; set HOURLINE_CACHE"
    ):
        fetch_jars("broker")


def test_without_a_home_the_setting_for_the_cache_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOURLINE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(SetupError, match="there is no home folder to keep the jars in; set HOURLINE_CACHE to a folder"):
        fetch_jars("broker")
