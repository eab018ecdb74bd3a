"""Findings: what a person should know of a source, over a span of arrival, and of the speed layer.

``read_facts.py`` reads what is known from the tables and the workspace. ``records.py``, ``clocks.py`` and ``work.py``
decide by it, at a given moment: they are pure. So everybody who looks finds the same, also while the speed layer or
Airflow is down. ``look.py`` puts it together.
"""
