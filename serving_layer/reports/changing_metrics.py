"""Reports the metrics whose declaration in the YAML is pending, and those whose results lack hours."""

from datetime import datetime

from hourline_core.ledger.pending_declarations import PendingDeclaration
from serving_layer.connection import Connection
from serving_layer.described import Described


class ChangingMetric(Described):
    """A metric whose declaration in the YAML is pending: queries do not use it yet."""

    metric: str
    """The name of the metric."""
    declaration: str
    """The hash of its declaration in the YAML."""
    served: str | None
    """The hash of the declaration that queries use. Null: the metric is new, and has no answers."""
    served_since: datetime | None
    """When that one was promoted (UTC). Null: it is the first one."""
    missing: int | None
    """The number of hours to recompute before the new declaration is promoted. Null: the speed layer has not started
    since it was changed.
    """
    words: str
    """The same in one sentence, with the command to run."""


class LackingMetric(Described):
    """A metric whose results lack hours: they have events from before it was first computed or reset."""

    metric: str
    """The name of the metric."""
    closed: int
    """The number of its missing hours that have closed."""
    open: int
    """The number of its missing hours that have not closed."""
    words: list[str]
    """The same in sentences, each with the command that computes these hours."""


def list_changes(connection: Connection) -> list[ChangingMetric]:
    """The metrics whose declaration in the YAML is pending."""
    return [_report_change(connection, pending) for pending in connection.pending]


def _report_change(connection: Connection, pending: PendingDeclaration) -> ChangingMetric:
    missing = None
    if pending.is_started:
        missing = connection.missing_of(pending.metric, pending.declaration)
    return ChangingMetric(
        metric=pending.metric,
        declaration=pending.declaration,
        served=pending.served,
        served_since=pending.served_since,
        missing=missing.count if missing else 0 if pending.is_started else None,
        words=pending.in_words(missing),
    )


def list_lacking(connection: Connection) -> list[LackingMetric]:
    """The metrics whose results lack hours."""
    return [
        LackingMetric(metric=one.metric, closed=len(one.closed), open=len(one.open), words=one.in_words())
        for one in connection.missing
    ]
