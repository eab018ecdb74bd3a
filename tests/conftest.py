"""What a run of the tests has started ends with it, and where its files are. How Hypothesis looks for examples: `make
test` by the profile "hourline", `make test-long` by "long".
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from xdist.remote import Producer

from tests.support import leftovers
from tests.support.scheduling import StackFirst, yield_to_others

# A busy machine is no failure. Half of the examples that Hypothesis draws by itself, other ones each time.
settings.register_profile("hourline", deadline=None, max_examples=50)
settings.register_profile("long", deadline=None, max_examples=1000)
# Broken on purpose (mutants.py): look longer, and do not look for the shortest story.
settings.register_profile("mutants", deadline=None, phases=[Phase.generate], print_blob=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hourline"))

MEMORY = Path("/dev/shm")  # noqa: S108 (pytest makes a folder of its own in it)
ENOUGH = 8 * 2**30
"""Bytes. The folders of tests that pass are removed at once."""


def pytest_configure() -> None:
    leftovers.watch()
    keep_files_in_memory()
    yield_to_others()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> StackFirst | None:
    return StackFirst(config, log) if config.getvalue("dist") == "loadfile" else None


def keep_files_in_memory() -> None:
    """Where there is enough memory, and no TMPDIR is set. Tests wait for the disk at each commit otherwise."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ENOUGH:
        return
    if not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:  # Tests write programs, and run them.
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
