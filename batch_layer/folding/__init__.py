"""Folds archived events in Spark's tasks, with the same code as the speed layer.

plan.py     how events are folded, and whether DuckDB computes all expressions, so that tasks read them themselves
shares.py   divides the files of the archive among the tasks
read.py     reads the events of a task, which do not reach Java then
files.py    has DuckDB read what it folds, where nothing is in between
batches.py  how Spark passes events to a task, if it reads them
tables.py   joins tables of events to chunks, and queries them
first.py    finds the first event of each id and hour
identities.py counts what that keeps and leaves out, for the audit
tasks.py    folds and counts the events of one task
totals.py   adds up the events of a metric by hour alone
failures.py some of the events that a class of the user fails for
run.py      runs the tasks, and merges what they tell
"""
