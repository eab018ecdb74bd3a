"""Drops the commits of a table that a power cut has torn: their files were not on disk yet, or in part.

A commit is synced before anybody is told of it, and before the next one is made. So what is torn was never
acknowledged, and the table as it was before is the right one. A torn commit may lack its entry in the log, data files
or a checkpoint, the whole or a part of each.

A file that somebody damages looks the same. So a commit is taken for torn only if the last whole one was made before
the machine started. Each start of a writer makes a commit of its own.
"""

import json
import os
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
_WRITTEN_BACK_SECONDS = 120
"""An operating system writes all files within this time, whether they are synced or not. Linux takes 35 s."""

_MALFORMED = (ValueError, KeyError, TypeError, AttributeError)
"""What JSON raises that is cut off, or has other members."""

_Actions = dict[str, dict[str, Any]]


def drop_torn_commits(folder: Path) -> list[int]:
    """Drop what a power cut has torn of the table in ``folder``, and return the versions that are gone. The caller is
    its only writer. Raises OSError.
    """
    entries, checkpoints = _versions(folder, ".json"), _versions(folder, _CHECKPOINT)
    # A checkpoint is written after its entry, and names the same files.
    begun = next(
        (at for at in reversed(checkpoints) if _actions(folder, at) and _is_readable(_checkpoint(folder, at))), -1
    )
    last = _last_whole(folder, begun)
    torn = [version for version in entries if version > last]
    torn_checkpoints = [version for version in checkpoints if version > begun]
    if not (torn or torn_checkpoints or _hint(folder) not in (None, *checkpoints)):
        return []
    is_creation = torn == [0] and not any(folder.glob("*.parquet"))
    if not (is_creation or _is_from_before(folder, last)):
        return []
    _drop(folder, torn, torn_checkpoints)
    return torn


def newest_dependencies(folder: Path) -> dict[str, int]:
    """The versions of other tables, by name, that the table in ``folder`` depends on, as its last commit that records
    some says. Empty: none does.
    """
    for version in reversed(_versions(folder, ".json")):
        if _actions(folder, version) is None:
            continue  # It is damaged: whoever opens the table says so.
        recorded = [
            json.loads(line)["txn"] for line in _read(folder, version).splitlines() if line.startswith(b'{"txn"')
        ]
        seen = {of["appId"].removeprefix(SEEN): of["version"] for of in recorded if of["appId"].startswith(SEEN)}
        if seen:
            return seen
    return {}


def newest_version(folder: Path) -> int:
    """The version that the table in ``folder`` is at. -1: there is none."""
    return max(_versions(folder, ".json"), default=-1)


def drop_last_commit(folder: Path) -> bool:
    """Drop the last commit of the table in ``folder``, which depends on one that is lost. Returns whether it could be
    lost by a power cut, else nothing is dropped. Raises OSError.
    """
    last = newest_version(folder)
    if not _is_from_before(folder, last - 1):
        return False
    _drop(folder, [last], [last])
    return True


def _drop(folder: Path, versions: list[int], checkpoints: list[int]) -> None:
    """Delete the newest entry first: what another power cut leaves of that is as torn as before."""
    log = folder / LOG
    (log / _HINT).unlink(missing_ok=True)
    for version in checkpoints:
        _checkpoint(folder, version).unlink(missing_ok=True)
    for version in sorted(versions, reverse=True):
        (folder / commit_file(version)).unlink()
    sync(log)


def _versions(folder: Path, ending: str) -> list[int]:
    """The versions that have a file in the log with this ``ending``, in order."""
    try:
        names = [entry.name for entry in os.scandir(folder / LOG)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name[:20]) for name in names if name[20:] == ending and name[:20].isdigit())


def _read(folder: Path, version: int) -> bytes:
    """The entry of a version. Empty: there is none."""
    try:
        return (folder / commit_file(version)).read_bytes()
    except FileNotFoundError:
        return b""


def _last_whole(folder: Path, begun: int) -> int:
    """The last version up to which all entries after the checkpoint ``begun`` are whole, with their data files."""
    actions: dict[int, _Actions] = {}
    whole = begun
    while (of := _actions(folder, whole + 1)) is not None:
        whole += 1
        actions[whole] = of
    newest = newest_version(folder)
    recent = (folder / commit_file(newest)).stat().st_mtime - _WRITTEN_BACK_SECONDS if newest >= 0 else 0.0
    removed_by = {path: version for version, of in actions.items() for path in of["remove"]}
    for version, of in actions.items():
        for path, size in of["add"].items():
            # A vacuum may have deleted what a later commit replaces.
            if removed_by.get(path, -1) <= version and not _has_data(folder / unquote(path), size, recent):
                return version - 1
    return whole


def _actions(folder: Path, version: int) -> _Actions | None:
    """By action (``add``, ``remove``), the paths of its data files with their sizes. None: the entry is not whole."""
    entry, found = _read(folder, version), {"add": dict[str, Any](), "remove": dict[str, Any]()}
    try:
        for line in entry.splitlines():
            for kind, action in json.loads(line).items():
                if kind in found:
                    found[kind][action["path"]] = action.get("size")
    except _MALFORMED:
        return None
    return found if is_whole_commit(entry) else None


def _has_data(file: Path, size: int, recent: float) -> bool:
    """Whether a data file has all of its ``size``, and can be read if it is as ``recent`` (seconds since 1970)."""
    if not file.exists() or (there := file.stat()).st_size != size:
        return False
    return there.st_mtime < recent or _is_readable(file)


def _is_readable(file: Path) -> bool:
    try:
        with pq.ParquetFile(file) as content:
            for _ in content.iter_batches():
                pass
    except (OSError, pa.ArrowException):
        return False
    return True


def _checkpoint(folder: Path, version: int) -> Path:
    return folder / LOG / f"{version:020}{_CHECKPOINT}"


def _hint(folder: Path) -> int | None:
    """The version that Delta's hint names as the last checkpoint. -1: the hint is cut off. None: there is none."""
    try:
        return int(json.loads((folder / LOG / _HINT).read_bytes())["version"])
    except FileNotFoundError:
        return None
    except _MALFORMED:
        return -1


def _is_from_before(folder: Path, version: int) -> bool:
    """Whether a commit was made before this start of the machine."""
    boot = (info_of(_read(folder, version)) or {}).get(f"hourline.{BOOT}")
    return boot is not None and boot != this_boot()
