"""What a run of the tests has started ends with it. How Hypothesis looks for examples: `make test` by the profile
"hourline", `make test-long` by "long".
"""

import os

from hypothesis import Phase, settings

from tests.support import leftovers

# A busy machine is no failure.
settings.register_profile("hourline", deadline=None)
settings.register_profile("long", deadline=None, max_examples=1000)
# Broken on purpose (mutants.py): look longer, and do not look for the shortest story.
settings.register_profile("mutants", deadline=None, phases=[Phase.generate], print_blob=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hourline"))


def pytest_configure() -> None:
    leftovers.watch()
