"""Checks that the log of a Delta table is whole, as far back as a reader needs it: the commits since the last
checkpoint.

delta-rs and DuckDB notice a commit that is cut off within a line, and a missing one between two others. They take a
commit that is empty, or cut off between two lines, for one that changed less or nothing, so rows are silently missing.
So each commit is compared with what its own first line (commitInfo) says that it did.
"""

import json
from collections import Counter
from typing import Any

from pyarrow.fs import FileInfo, FileSelector, FileSystem

LOG = "_delta_log"
"""The folder of the log, below the table."""

Stamp = tuple[int | None, int | None]
"""When a file was written (nanoseconds), and its size."""

TRANSACTIONS = "transactions"
"""The key, in the commitInfo of Hourline's commits, of the number of application transactions in the commit."""
WIDENED = "widened"
"""The key in the commitInfo of a commit that changes the table's columns."""
BOOT = "boot"
"""The key in the commitInfo of Hourline's commits of the start of the machine that made it. See ``this_boot``."""


def incomplete_commit(files: FileSystem, version: int, whole: dict[str, Stamp] | None = None) -> str | None:
    """The first file of the log that lacks a part of the table at ``version``. None: the log is whole. ``files`` are
    those of the table, by paths below it.

    ``whole`` has the stamps of the commits that were whole at the last look. They are read again only if they have
    another stamp. It is for files on this machine, of which it takes a tenth of the time of reading them.
    """
    names = [commit_file(number) for number in range(_last_checkpoint(files, version) + 1, version + 1)]
    stamps = {} if whole is None else {file.path: _stamp(file) for file in files.get_file_info(names)}
    for name in names:
        if whole and name in whole and whole[name] == stamps[name]:
            continue
        try:
            with files.open_input_stream(name) as commit:
                if not is_whole_commit(commit.read()):
                    return name
        except FileNotFoundError:
            # Another process may have written a checkpoint meanwhile, and deleted the commits before it.
            if f"{LOG}/{_listed_checkpoint(files, version):020}.json" < name:
                return name
    if whole is not None:
        whole.clear()
        whole.update(stamps)
    return None


def commit_file(version: int) -> str:
    """The path, below the table, of the file of one commit."""
    return f"{LOG}/{version:020}.json"


def newest_commit(files: FileSystem) -> int:
    """The highest version that has a file in the log, whatever its content. -1: there is none."""
    return max((_number(path) for path in _list(files) if path.endswith(".json")), default=-1)


def removed_files(files: FileSystem, version: int) -> set[str]:
    """The paths of the data files that one commit has removed."""
    with files.open_input_stream(commit_file(version)) as commit:
        actions = map(json.loads, commit.read().splitlines())
        return {action["remove"]["path"] for action in actions if "remove" in action}


def _stamp(file: FileInfo) -> Stamp:
    return file.mtime_ns, file.size


def info_of(commit: bytes) -> dict[str, Any] | None:
    """The commitInfo of a commit. None: it is not there, or cut off."""
    told = next((line for line in commit.splitlines() if line.startswith(b'{"commitInfo"')), None)
    try:
        info: dict[str, Any] = json.loads(told or b"")["commitInfo"]
    except ValueError:
        return None
    return info


def is_whole_commit(commit: bytes) -> bool:
    """Whether a commit has all that its first line says that it did."""
    lines = [line for line in commit.splitlines() if line]
    kinds = Counter(line[2:].partition(b'"')[0].decode("ascii", "replace") for line in lines)
    info = info_of(commit)
    if info is None:
        return False
    counted = info.get("operationMetrics", {})
    # By the names that delta-rs gives them; RESTORE has its own.
    wanted = {
        "add": counted.get("num_added_files", counted.get("numRestoredFile", 0)),
        "remove": counted.get("num_removed_files", counted.get("numRemovedFile", 0)),
        "txn": info.get(f"hourline.{TRANSACTIONS}", 0),
        "metaData": info.get("operation") == "CREATE TABLE" or f"hourline.{WIDENED}" in info,
    }
    return all(kinds[kind] >= int(count) for kind, count in wanted.items())


def _last_checkpoint(files: FileSystem, version: int) -> int:
    """The version of a checkpoint at or below ``version``, if possible the last one. -1: there is none."""
    try:
        with files.open_input_stream(f"{LOG}/_last_checkpoint") as hint:
            newest = int(json.loads(hint.read())["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return _listed_checkpoint(files, version)
    return newest if newest <= version else _listed_checkpoint(files, version)


def _listed_checkpoint(files: FileSystem, version: int) -> int:
    return max(
        (_number(path) for path in _list(files) if ".checkpoint." in path and _number(path) <= version), default=-1
    )


def _list(files: FileSystem) -> list[str]:
    return [name for entry in files.get_file_info(FileSelector(LOG)) if (name := entry.base_name)[:20].isdigit()]


def _number(name: str) -> int:
    return int(name[:20])
