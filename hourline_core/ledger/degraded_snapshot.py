"""Reads what can still be answered if tables are damaged. It takes the newest publication at which the most metrics can
be read. Each of these metrics is exact.

An earlier publication gives the same numbers as the newest one: its hours are provisional instead of final, as long as
provisional has not been pruned since. Whatever cannot be read so is left out, and the snapshot names these views with
the reason. Damaged progress is read at an older version.
"""

from contextlib import suppress
from itertools import chain

from hourline_core.errors import TableError
from hourline_core.ledger.damage import Degraded, views_of
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.snapshot import Snapshot, look_up, take_snapshot
from hourline_core.model import Project
from hourline_core.storage.data_files import damage_of
from hourline_core.storage.opening import exists, open_table, readable_versions


def degraded_snapshot(project: Project) -> tuple[Snapshot, set[str]]:
    """The newest snapshot if it is whole, else the one that lacks the fewest metrics; and one sentence for each
    damaged table. Raises TableError if there is none.
    """
    try:
        snapshot = take_snapshot(project)
    except TableError as error:
        damage = {str(error)}
    else:
        damage = set(_damaged_files(project, snapshot).values())
        if not damage:
            return snapshot, damage
    best: Snapshot | None = None
    for publication in _publications(project):
        on_damage = Degraded()
        with suppress(TableError):
            snapshot = _as_far_as_readable(project, publication, on_damage)
            if files := _damaged_files(project, snapshot):
                on_damage.unreadable |= files
                snapshot = _as_far_as_readable(project, publication, on_damage)
            if best is None or _lacking(project, snapshot) < _lacking(project, best):
                best = snapshot
        if publication is None:
            damage |= set(on_damage.unreadable.values())
        if best is not None and not _lacking(project, best):
            break
    if best is None:
        raise TableError("; ".join(sorted(damage)))
    return best, damage


def _as_far_as_readable(project: Project, publication: int | None, on_damage: Degraded) -> Snapshot:
    """A snapshot without damaged tables, which ``on_damage`` notes; at an earlier ``publication``, if given.

    Raises TableError if there is none, as when coverage has cutoffs beyond progress, or provisional no longer has the
    rows above its cutoffs.
    """
    snapshot, overtaken = look_up(project, on_damage, publication)
    if overtaken:
        raise TableError("a metric was reset while its tables were looked up")
    if beyond := snapshot.cutoffs_beyond:
        raise TableError(f"coverage has cutoffs beyond the progress of {', '.join(beyond)}")
    return snapshot


def _publications(project: Project) -> list[int | None]:
    """The newest publication, and those before it that can be read."""
    layout = Layout.of(project)
    if not exists(layout.coverage, layout.storage_options):
        return [None]
    return list(
        chain([None], (table.version() for table in readable_versions(layout.coverage, layout.storage_options)))
    )


def _damaged_files(project: Project, snapshot: Snapshot) -> dict[str, str]:
    """By view, the data file of it that is missing or has the wrong size."""
    layout = Layout.of(project)
    damaged: dict[str, str] = {}
    for name, versions in snapshot.versions.items():
        for version in versions:
            table = open_table(f"{layout.root}/{name}", layout.storage_options, version)
            if damage := damage_of(table, decoding=False):
                damaged |= dict.fromkeys(_views_on(project, name), damage)
    return damaged


def _views_on(project: Project, name: str) -> list[str]:
    """The views that read the table ``name``."""
    kind, *rest = name.split("/")
    if kind in ("final", "provisional"):
        return views_of(project.metrics[rest[0]])
    others = {
        "staged": f"{(rest or [''])[0]}_staged",
        "events": f"events_{(rest or [''])[0]}",
        "rejected": f"rejected_{(rest or [''])[0]}",
        "quarantine": f"quarantine_{(rest or [''])[0]}",
    }
    views = [others.get(kind, name)]
    return [*views, "late_events"] if kind == "events" else [*views, "publications"] if kind == "drift" else views


def _lacking(project: Project, snapshot: Snapshot) -> int:
    return sum(name in snapshot.unreadable for name in project.metrics)
