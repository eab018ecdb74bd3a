"""Another measure per second of the result's window, which nothing is stored for."""

from typing import ClassVar

from hourline_core.aggregates.ratio import Ratio


class Rate(Ratio):
    """``rate(a)`` of the finished value of the measure a, a count or a sum, and the seconds of the window."""

    starts_at_zero: ClassVar[bool] = True
