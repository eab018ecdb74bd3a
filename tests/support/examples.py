"""How many examples a property has when each one takes a tenth of a second or more."""

from math import ceil

from hypothesis import settings

_TIMES = {"mutants": 3, "long": 10}
"""By profile of ``conftest.py``. All others, also those that Hypothesis chooses for a worker of Spark, draw half."""


def examples(count: int) -> int:
    """Half of ``count`` in `make test` and CI, which draw others each time. More where a mutant must be found, and many
    in `make test-long`. And the simplest one, with which Hypothesis begins.
    """
    return 1 + ceil(count * _TIMES.get(settings.get_current_profile_name(), 0.5))
