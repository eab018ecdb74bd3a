"""Sinks: the results of metrics, sent on as they change.

A sink follows the snapshots. In each round, ``rows.py`` reads the results of the windows that may differ
(``scope.py``), and ``sent_results.py`` compares them with what was sent last. What differs goes to the target:
``kafka_topic.py``, ``webhook.py``, ``command.py`` or ``postgres_table.py``. ``sender.py`` does the rounds of one sink,
``run.py`` those of all sinks.
"""
