"""Panes as Spark expressions. The arithmetic is that of `model/windows.py`."""

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.model import Metric
from hourline_core.model.metric import PANE
from hourline_core.model.scratch_columns import EVENT_TIME
from hourline_core.model.windows import TumblingWindow


def tile_keys(metric: Metric) -> dict[str, str]:
    """The Spark SQL of the columns that tiles are grouped by, besides the hour: the pane if there is one, and the
    dimensions. It is about events with EVENT_TIME.
    """
    if metric.pane is None:
        return dict(metric.dimensions)
    micros = f"unix_micros(`{EVENT_TIME}`)"
    start = f"timestamp_micros({micros} - pmod({micros}, {metric.pane // timedelta(microseconds=1)}))"
    return {PANE: start, **metric.dimensions}


def assign_pane(event_time: Column, window: TumblingWindow) -> Column:
    """The start of the pane that contains ``event_time``. Both are timestamps; null gives null.

    Spark's own ``window`` is not used, since it drops the rows without a time.
    """
    micros = F.unix_micros(event_time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(window.pane // timedelta(microseconds=1))))
