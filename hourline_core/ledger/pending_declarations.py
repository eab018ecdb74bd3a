"""Declarations in the YAML that readers do not get yet: what they get instead, and what takes the change up.

A running speed layer has the declarations that it started with. It takes up changed ones when it starts again.
Recomputes then cover the hours of the new declaration, and the last of them promotes it.
"""

from dataclasses import dataclass
from datetime import datetime

from hourline_core.ledger.missing_hours import MissingHours
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project, declaration_hash

TAKES_UP = "(`hourline down`, `hourline up`)"
"""The commands after which the speed layer has the declarations of the YAML."""


@dataclass(frozen=True)
class PendingDeclaration:
    """A declaration of a metric in the YAML that readers do not get yet."""

    metric: str
    source: str
    rollups: tuple[str, ...]
    """The metrics over it, which answer by the same declaration."""
    declaration: str
    """Its hash."""
    is_started: bool
    """Whether the speed layer has started with it. Then recomputes promote it."""
    blocked: int
    """The number of its hours that are blocked."""
    served: str | None
    """The hash of the declaration that readers get. None: the metric is new, and has no answers."""
    served_since: datetime | None
    """When that one was promoted (UTC). None: it is the first one."""
    served_blocked: int
    """The number of its hours that are blocked."""

    def in_words(self, missing: MissingHours | None = None) -> str:
        """One sentence, with the command that takes it up. ``missing`` are the hours that it lacks, if they are
        known.
        """
        over = ", ".join(f"'{name}'" for name in self.rollups)
        them = f"it, and {over} over it," if over else "it"
        if self.served is None:
            has = "have" if over else "has"
            return f"metric '{self.metric}' is new; {them} {has} answers once the speed layer starts again {TAKES_UP}"
        answers = f"{them} {'answer' if over else 'answers'} by its older declaration"
        changed = f"metric '{self.metric}' has changed; {answers} until"
        if not self.is_started:
            return f"{changed} the speed layer starts again {TAKES_UP}"
        missing_hours = "its missing hours" if missing is None else f"its {missing.count:,} missing hour(s)"
        words = f"{changed} {missing_hours} are recomputed (`hourline recompute`)"
        if missing and missing.open:
            words += f"; {len(missing.open):,} of them are open, and wait for their close, or for `{missing.command}`"
        if self.blocked:
            words += f"; {self.blocked:,} hour(s) of the new one are blocked (`hourline quality --blocked`)"
        if self.served_blocked:
            words += f"; {self.served_blocked:,} hour(s) of the older one are blocked, and are not recomputed any more"
        return words


def find_pending(project: Project, snapshot: Snapshot) -> list[PendingDeclaration]:
    """The declarations of the YAML that readers of ``snapshot``, the newest one, do not get, in the order of their
    names. A source without progress has none: nothing has started yet.
    """
    pending = []
    for metric in sorted(project.metrics.values(), key=lambda metric: metric.name):
        if metric.source not in snapshot.progress:
            continue
        declaration = declaration_hash(project.source_of(metric), metric)
        served = next((tables for tables in snapshot.served if tables.metric.name == metric.name), None)
        if served is not None and served.declaration == declaration:
            continue
        older = None if served is None else snapshot.coverage.of(metric.name, served.declaration)
        pending.append(
            PendingDeclaration(
                metric=metric.name,
                source=metric.source,
                rollups=tuple(name for name, rollup in project.rollups.items() if rollup.base == metric.name),
                declaration=declaration,
                is_started=f"{metric.name}_{declaration}" in {tables.name for tables in snapshot.metrics},
                blocked=snapshot.coverage.of(metric.name, declaration).blocked_hours(),
                served=None if served is None else served.declaration,
                served_since=None if older is None else older.promoted(),
                served_blocked=0 if older is None else older.blocked_hours(),
            )
        )
    return pending
