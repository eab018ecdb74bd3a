"""How many examples a property has when each one takes a tenth of a second or more."""

from math import ceil

from hypothesis import settings

_TIMES = {"default": 0.5, "hourline": 0.5, "mutants": 3, "long": 10}
"""By profile of ``conftest.py``. A worker of Spark has the default: it imports a test, and draws nothing."""


def examples(count: int) -> int:
    """Half of ``count`` in `make test` and CI, which draw others each time. More where a mutant must be found, and many
    in `make test-long`. And the simplest one, with which Hypothesis begins.
    """
    return 1 + ceil(count * _TIMES[settings.get_current_profile_name()])
