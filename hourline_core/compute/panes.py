"""Panes as Spark SQL. The arithmetic is that of `model/windows.py`."""

from datetime import timedelta

from hourline_core.model import Metric
from hourline_core.model.expressions import attempt
from hourline_core.model.metric import PANE
from hourline_core.model.scratch_columns import EVENT_TIME


def tile_keys(metric: Metric) -> dict[str, str]:
    """The Spark SQL of the columns that tiles are grouped by, besides the hour: the pane if there is one, and the
    dimensions. It is about events with EVENT_TIME.
    """
    panes = {PANE: assign_pane(f"`{EVENT_TIME}`", metric.pane)} if metric.pane else {}
    return {**panes, **{name: attempt(text) for name, text in metric.dimensions.items()}}


def assign_pane(event_time: str, pane: timedelta) -> str:
    """Spark SQL for the start of the pane that contains ``event_time``, which is Spark SQL, too. Both are timestamps;
    null gives null.

    Spark's own ``window`` is not used, since it drops the rows without a time.
    """
    micros = f"unix_micros({event_time})"
    return f"timestamp_micros({micros} - pmod({micros}, {pane // timedelta(microseconds=1)}))"
