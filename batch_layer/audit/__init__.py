"""The audit between stage and publish: what must hold of a recomputed hour, checked by Great Expectations. It fails
closed.

facts.py        what is counted of the events and of the tiles, each by itself, one row per hour
history.py      between which bounds an hour's results lie, going by the same hour of past days
built_in.py     the expectations that follow from the declarations by themselves
suites.py       expectations by Great Expectations' names: which there are, and what is wrong with a declared one
check.py        what is wrong with the declared expectations, found before anything is audited
typed.py        their parameters as the columns have them
validation.py   Great Expectations run over rows, hour by hour
findings.py     what an expectation found in one hour, read from Great Expectations' results
auditing.py     all of it, for the staged hours of one source
record.py       what was found, as rows of the quality table
"""

from hourline_core.runtime.quirks import import_great_expectations

import_great_expectations()  # before any module here imports it by itself
