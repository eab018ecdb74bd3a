"""The protocol on real Delta tables and DuckDB, without Kafka and Spark: whatever runs, crashes or sleeps in between,
each read is exact.

A Hypothesis state machine drives the product's own commits (source_tables, publication, snapshot, merge); the oracle
counts plain Python lists.
"""

import os

from hypothesis import HealthCheck, settings

from tests.support.protocol_machine import Protocol

TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=int(os.environ.get("PROTOCOL_EXAMPLES", "5")),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
