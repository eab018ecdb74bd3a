"""Folds archived events where Spark's tasks read them, with the same code as the speed layer. No event reaches Java.

plan.py     whether DuckDB computes all expressions of a source and its metrics, and what the tasks read
shares.py   divides the files of the archive among the tasks
tasks.py    reads, identifies, folds and counts the events of one task
run.py      runs the tasks, and merges what they tell
"""
