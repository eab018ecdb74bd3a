"""Windows as Spark expressions. The arithmetic is that of `model/windows.py`."""

from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.model.windows import TumblingWindow


def assign_pane(event_time: Column, window: TumblingWindow) -> Column:
    """The start of the pane that contains ``event_time``. Both are timestamps; null gives null.

    Spark's own ``window`` is not used, since it drops the rows without a time.
    """
    micros = F.unix_micros(event_time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(window.pane // timedelta(microseconds=1))))
