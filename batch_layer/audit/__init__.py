"""The audit between stage and publish: what must hold of a recomputed hour, checked by Great Expectations. It fails
closed.

facts.py        what is counted of the events and of the tiles, each by itself, one row per hour
history.py      between which bounds an hour's results lie, going by the same hour of past days
built_in.py     the expectations that follow from the declarations by themselves
suites.py       expectations by Great Expectations' names: which there are, and what is wrong with a declared one
mistakes.py     what is wrong with the declared expectations, found before anything is audited
typed.py        their parameters as the columns have them
validation.py   Great Expectations run over rows, hour by hour
findings.py     what an expectation found in one hour, read from Great Expectations' results
auditing.py     all of it, for the staged hours of one source
record.py       what was found, as rows of the quality table
"""

import importlib
import os
import sys
from types import ModuleType


class _OnUse(ModuleType):
    """Stands for a module until something in it is asked for."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # who goes through all modules does not mean this one
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # or it would call home as it is imported
_stand_ins: dict[str, ModuleType | None] = {
    # It looks for Spark Connect, which ends a `python -c` where its dependencies are missing, and for SQLAlchemy, which
    # it then does without.
    "pyspark.sql.connect": None,
    "sqlalchemy": None,
    # Two or three expectations and a chart need them; with SQLAlchemy they are half of what importing it takes.
    "scipy.stats": _OnUse("scipy.stats"),
    "altair": _OnUse("altair"),
}
_missing = [name for name in _stand_ins if name not in sys.modules]
sys.modules.update({name: _stand_ins[name] for name in _missing})  # type: ignore[misc]
import great_expectations  # noqa: E402, F401

for _name in _missing:
    del sys.modules[_name]
