"""How many examples a property has when each one takes a tenth of a second or more."""

from hypothesis import settings

_TIMES = {"hourline": 1, "mutants": 3, "long": 10}
"""By profile of ``conftest.py``."""


def examples(count: int) -> int:
    """``count`` in `make test`, more where a mutant must be found, and many in `make test-long`; and the simplest one,
    with which Hypothesis begins.
    """
    return 1 + count * _TIMES[settings.get_current_profile_name()]
