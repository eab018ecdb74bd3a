"""Drops the commits of a table that a power cut has torn: their files were not on disk yet, or in part.

A commit is synced before anybody is told of it, and before the next one is made. So what is torn was never
acknowledged, and the table as it was before is the right one. What is lost of a torn commit can be anything: its entry
in the log, data files, a checkpoint, the whole or a part of each.

A file that somebody damages looks the same. So a commit is taken for torn only if the last whole one was made before
the machine started. Each start of a writer makes a commit of its own.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from hourline_core.runtime.boot import this_boot
from hourline_core.runtime.disk import sync
from hourline_core.storage.commit_log import BOOT, LOG, commit_file, info_of, is_whole_commit
from hourline_core.storage.seen_versions import SEEN

_CHECKPOINT = ".checkpoint.parquet"
_HINT = "_last_checkpoint"

_Actions = dict[str, dict[str, Any]]


def drop_torn_commits(folder: Path) -> list[int]:
    """Drop what a power cut has torn of the table in ``folder``, and return the versions that are gone. The caller is
    its only writer. Raises OSError.
    """
    entries = dict(_entries(folder))
    checkpoints = {int(file.name[:20]): file for file in (folder / LOG).glob(f"*{_CHECKPOINT}")}
    # One is written after its entry, and names the same files.
    whole = {at for at, file in checkpoints.items() if _actions(entries.get(at, b"")) and _is_readable(file)}
    last = _last_whole(folder, entries, max(whole, default=-1))
    torn = sorted(version for version in entries if version > last)
    torn_checkpoints = sorted(checkpoints.keys() - whole)
    if not (torn or torn_checkpoints or _hint(folder) not in (None, *whole)):
        return []
    is_creation = torn == [0] and not any(folder.glob("*.parquet"))
    if not (is_creation or _is_from_before(entries.get(last))):
        return []
    _drop(folder, torn, torn_checkpoints)
    return torn


def _hint(folder: Path) -> int | None:
    """The version that Delta's hint names as the last checkpoint. -1: the hint is cut off. None: there is none."""
    try:
        return int(json.loads((folder / LOG / _HINT).read_bytes())["version"])
    except FileNotFoundError:
        return None
    except ValueError:
        return -1


def newest_dependencies(folder: Path) -> dict[str, int]:
    """The versions of other tables, by name, that the table in ``folder`` depends on, as its last commit that records
    some says. Empty: no commit since the last checkpoint does.
    """
    for _, entry in sorted(_entries(folder), reverse=True):
        if _actions(entry) is None:
            continue
        recorded = [json.loads(line)["txn"] for line in entry.splitlines() if line.startswith(b'{"txn"')]
        seen = {of["appId"].removeprefix(SEEN): of["version"] for of in recorded if of["appId"].startswith(SEEN)}
        if seen:
            return seen
    return {}


def newest_version(folder: Path) -> int:
    """The version that the table in ``folder`` is at. -1: there is none."""
    return max((version for version, _ in _entries(folder)), default=-1)


def drop_last_commit(folder: Path) -> bool:
    """Drop the last commit of the table in ``folder``, which depends on one that is lost. Returns whether it could be
    lost by a power cut, else nothing is dropped. Raises OSError.
    """
    entries = dict(_entries(folder))
    last = max(entries)
    if not _is_from_before(entries.get(last - 1)):
        return False
    _drop(folder, [last], [last])
    return True


def _drop(folder: Path, versions: list[int], checkpoints: list[int]) -> None:
    """Delete the newest entry first: what another power cut leaves of that is as torn as before."""
    log = folder / LOG
    (log / _HINT).unlink(missing_ok=True)
    for version in checkpoints:
        (log / f"{version:020}{_CHECKPOINT}").unlink(missing_ok=True)
    for version in sorted(versions, reverse=True):
        (folder / commit_file(version)).unlink()
    sync(log)


def _entries(folder: Path) -> Iterator[tuple[int, bytes]]:
    """The versions of the entries in the log, and their content."""
    with suppress(FileNotFoundError):
        for file in os.scandir(folder / LOG):
            if file.name.endswith(".json") and file.name[:20].isdigit():
                yield int(file.name[:20]), Path(file.path).read_bytes()


def _last_whole(folder: Path, entries: dict[int, bytes], begun: int) -> int:
    """The last version up to which all entries after the checkpoint ``begun`` are whole, with their data files."""
    actions: dict[int, _Actions] = {}
    whole = begun
    while whole + 1 in entries and (of := _actions(entries[whole + 1])) is not None:
        whole += 1
        actions[whole] = of
    removed_by = {path: version for version, of in actions.items() for path in of["remove"]}
    for version, of in actions.items():
        for path, size in of["add"].items():
            # A vacuum may have deleted what a later commit replaces.
            if removed_by.get(path, -1) <= version and not _has_data(folder / unquote(path), size):
                return version - 1
    return whole


def _actions(entry: bytes) -> _Actions | None:
    """By action (``add``, ``remove``), the paths of its data files with their sizes. None: the entry is not whole."""
    found: _Actions = {"add": {}, "remove": {}}
    try:
        for line in entry.splitlines():
            for kind, action in json.loads(line).items():
                if kind in found:
                    found[kind][action["path"]] = action.get("size")
    except ValueError:
        return None
    return found if is_whole_commit(entry) else None


def _has_data(file: Path, size: int) -> bool:
    return file.exists() and file.stat().st_size == size and _is_readable(file)


def _is_readable(file: Path) -> bool:
    try:
        with pq.ParquetFile(file) as content:
            for _ in content.iter_batches():
                pass
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def _is_from_before(entry: bytes | None) -> bool:
    """Whether a commit was made before this start of the machine."""
    boot = (info_of(entry or b"") or {}).get(f"hourline.{BOOT}")
    return boot is not None and boot != this_boot()
