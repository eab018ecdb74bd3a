"""What `hourline drift` shows: by how much recomputed hours changed, and why."""

from datetime import datetime

from hourline_core.sql.literals import literal
from serving_layer.connection import Connection
from serving_layer.described import Described


class DriftCause(Described):
    """Why one measure of one recomputed hour changed, and by how much; a value is over all dimensions, None where it is
    no number. UTC.
    """

    hour: datetime
    source: str
    metric: str
    measure: str
    cause: str
    """late, duplicate, declaration, rounding, unexplained."""
    amount: float | None
    cells: int
    """In how many groups."""
    at_close: float | None
    """What was served without the late events."""
    provisional: float | None
    """What was served last before the recompute."""
    final: float | None
    published: datetime


class DriftReport(Described):
    """``recomputed`` counts the publications of an hour of a metric; ``causes`` are those in which anything changed
    beyond the order of additions.
    """

    recomputed: int
    changed: int
    causes: list[DriftCause]


def drift_report(connection: Connection, hour: datetime | None = None, metric: str | None = None) -> DriftReport:
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
        f"SELECT count(DISTINCT (hour, metric, published)), count(DISTINCT (hour, metric, published)) FILTER (cause <> 'rounding') {chosen}"
    )
    ((recomputed, changed),) = counts.fetchall()
    rows = connection.sql(
        f"SELECT * EXCLUDE (cutoff) {chosen} AND cause IS NOT NULL ORDER BY hour, metric, published, measure, cause"
    )
    causes = [DriftCause(**row) for row in rows.to_arrow_table().to_pylist()]
    return DriftReport(recomputed=recomputed, changed=changed, causes=causes)
