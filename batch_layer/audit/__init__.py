"""The audit between stage and publish: Great Expectations checks the recomputed hours. It fails closed.

run_audit.py              audits the staged hours of all sources of a job, and says which are blocked
declared_expectations.py  builds the expectations that users declare
built_in_expectations.py  the expectations that follow from declarations and from history
history_bounds.py         bounds of an hour's results, from the same hour of past days
volume.py                 the expectations on how much comes in an hour
window_results.py         evaluates the expectations on the results of windows
session_results.py        evaluates those on sessions
fold_bounds.py            warns of groups that have more events than a keyed fold keeps
next_states.py            the states that readers get once the staged hours are published
facts.py                  counts of the events and of the tiles, one row per hour
parameter_types.py        gives parameters the types of their columns
expectation_mistakes.py   finds mistakes in declared expectations before anything is audited
validator.py              runs Great Expectations, and gives its results hour by hour
joined_facts.py           joins the facts of many metrics, which are evaluated at once
findings.py               the results of expectations in one hour
event_expectations.py     evaluates the declared expectations on events, in Spark
past_hours.py             the past hours that expectations can be tried on
trial.py                  tries expectations on past hours, and changes nothing
suggestions/              suggests expectations from past hours
quality_rows.py           findings as rows of the quality table
"""

from hourline_core.runtime.quirks import import_great_expectations, let_expectations_be_configured_once

import_great_expectations()  # before any module here imports it by itself
let_expectations_be_configured_once()
