"""Resets: reading a source from another position, making a derived source anew, and computing a metric again.

Each reset is a row of progress, whose commit makes it count. The row is numbered like a micro-batch's, above any
sequence ever written. So no later write can be taken for one that was done already.

A source is then read from its ``position``. Records that are archived already do not count again (see reprocessing.py).

A metric's ``complete_from`` is raised above all of its tiles. Its hours are ``missing`` from then on unless they are
covered. Only then are its provisional rows and its coverage deleted. A process that dies in between leaves reads exact,
and the same command finishes its work.

The archive of a derived source is marked. Then the results of its metrics and its events are deleted, and progress
begins anew with one row. Its events are made anew from the archives of its inputs.

positions.py      where a source is read from, and what that means for each partition
tables.py         the tables that a reset changes
results.py        the results of metrics, which a reset deletes
source_reset.py   reads a source from another position
derived_reset.py  makes a derived source anew
metric_reset.py   computes a metric again
"""

from speed_layer.reset.derived_reset import DerivedReset
from speed_layer.reset.metric_reset import MetricReset
from speed_layer.reset.positions import Target
from speed_layer.reset.source_reset import SourceReset

__all__ = ["DerivedReset", "MetricReset", "SourceReset", "Target"]
