"""Reports by how much recomputed hours changed, and why: `hourline drift`."""

from datetime import datetime

from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.described import Described


class DriftCause(Described):
    """One cause of a change in one measure of one recomputed hour. Values are over all dimensions. Null: it is no
    number.
    """

    hour: datetime
    """The hour (UTC)."""
    source: str
    """The name of the source."""
    metric: str
    """The name of the metric."""
    measure: str
    """The name of the measure."""
    cause: str
    """`late`, `duplicate`, `declaration`, `lookup`, `taken_back`, `rounding` or `unexplained`."""
    amount: float | None
    """The change by this cause."""
    cells: int
    """The number of groups that changed."""
    at_close: float | None
    """The value that was served without late events."""
    provisional: float | None
    """The value that was served last before the recompute."""
    final: float | None
    """The recomputed value."""
    published: datetime
    """When it was published (UTC)."""


class DriftReport(Described):
    """By how much recomputed hours changed, and why."""

    recomputed: int
    """The number of publications of an hour of a metric."""
    changed: int
    """The number of them in which a value changed by more than floating-point rounding."""
    causes: list[DriftCause]
    """The changes, by hour, metric, publication and measure."""


def report_drift(connection: Connection, hour: datetime | None = None, metric: str | None = None) -> DriftReport:
    """The drift of all recomputed hours, or of one, and of all metrics, or of one; by hour, metric, publication and
    measure.
    """
    conditions = ["true"]
    if hour is not None:
        conditions.append(f"hour = {literal(hour)}")
    if metric is not None:
        conditions.append(f"metric = {literal(metric)}")
    chosen = f"FROM drift WHERE {' AND '.join(conditions)}"
    counts = connection.sql(
        "SELECT count(DISTINCT (hour, metric, published)), count(DISTINCT (hour, metric, published)) FILTER (cause "
        f"<> 'rounding') {chosen}"
    )
    ((recomputed, changed),) = counts.fetchall()
    rows = connection.sql(
        f"SELECT * EXCLUDE (cutoff) {chosen} AND cause IS NOT NULL ORDER BY hour, metric, published, measure, cause"
    )
    causes = [DriftCause(**row) for row in rows.to_arrow_table().to_pylist()]
    return DriftReport(recomputed=recomputed, changed=changed, causes=causes)
