"""The audit between stage and publish: what must hold of a recomputed hour, checked by Great Expectations. It fails closed.

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

import os
import sys

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # or it would call home as it is imported
# It looks for Spark Connect as well, which ends a `python -c` where its dependencies are missing.
_looked_for = "pyspark.sql.connect"
if _looked_for not in sys.modules:
    sys.modules[_looked_for] = None  # type: ignore[assignment]
    import great_expectations  # noqa: F401

    del sys.modules[_looked_for]
