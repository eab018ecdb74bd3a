"""Mends the tables of a workspace after the machine has lost its power, before anything reads or writes them.

All acknowledged commits were on disk before. Any part of a later one may be lost. So each table goes back to its last
whole commit, and each progress to the last row whose tables are there. The next start of the speed layer reads the
records again.
"""

import os
from contextlib import suppress
from pathlib import Path

from hourline_core.model import Project
from hourline_core.runtime.boot import this_boot
from hourline_core.runtime.file_lock import hold_lock
from hourline_core.runtime.lease import LeaseName, lease_holder
from hourline_core.runtime.notes import note_file, read_note, write_note

_NOTE = "boot"
_WRITERS: tuple[LeaseName, ...] = ("speed", "batch")


def mend_after_power_cut(project: Project) -> list[str]:
    """Drop what a power cut has torn, once after each start of the machine. Returns a line for each table that has lost
    commits.

    Does nothing while a process has the workspace, which has mended it, nor for a user who may not write to it. Tables
    in an object store need none of it.
    """
    if (project.settings.tables or "").find("://") > 0 or _is_known(project.workspace):
        return []
    lost: list[str] = []
    workspace = project.workspace
    # Commands that start together wait for the first of them. So no writer begins meanwhile. If the system does not let
    # a table be read or mended, whoever opens it says so, and the next command tries again.
    with suppress(OSError), hold_lock(workspace / "run" / "boot.lock", "", waiting=lambda: None):
        has_writer = any(lease_holder(workspace, name) is not None for name in _WRITERS)
        if not has_writer and not _is_known(workspace):
            lost = _mend(project)
            write_note(note_file(workspace, _NOTE), {"boot": this_boot()})
    return lost


def _is_known(workspace: Path) -> bool:
    """Whether this is no new start of the machine, or nothing can be mended: there is no workspace that this user may
    write to.
    """
    if this_boot() is None or not os.access(workspace, os.W_OK):
        return True
    said = read_note(note_file(workspace, _NOTE))
    return said is not None and said.get("boot") == this_boot()


def _mend(project: Project) -> list[str]:
    # A command that finds nothing to mend must not import them.
    from hourline_core.ledger.layout import Layout
    from hourline_core.storage.torn_commits import (
        drop_last_commit,
        drop_torn_commits,
        newest_dependencies,
        newest_version,
    )

    root = Path(Layout.of(project).root)
    tables = {str(log.parent.relative_to(root)): log.parent for log in sorted(root.glob("**/_delta_log"))}
    lost = {name: len(drop_torn_commits(folder)) for name, folder in tables.items()}
    # Without `speed.fsync`, a commit of progress may outlive those that it depends on.
    while ahead := [
        name
        for name, folder in tables.items()
        if name.startswith("progress/")
        if any(newest_version(root / of) < version for of, version in newest_dependencies(folder).items())
        if drop_last_commit(folder)
    ]:
        for name in ahead:
            lost[name] += 1
    return [f"{name} ({count:,} commit{'s' * (count > 1)})" for name, count in lost.items() if count]
