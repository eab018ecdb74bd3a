"""The protocol on real Delta tables, as in test_protocol.py, with resets of metrics."""

import os
import random
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from speed_layer.reset import MetricReset
from tests.support.protocol_machine import CrashError, Protocol

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class ProtocolWithResets(Protocol):
    """The protocol's random walk, in which metrics are reset too, by a process that may die before any of its commits."""

    @rule(name=st.sampled_from(["totals", "copies"]), survived=st.none() | st.integers(0, 2))
    def reset_metric(self, name: str, survived: int | None) -> None:
        if not self.finished or name not in self.project.metrics:
            return
        commits = count()

        def reached(place: str) -> None:
            if place.startswith("before") and next(commits) == survived:
                raise CrashError

        planned = MetricReset(self.project, self.project.metrics[name])
        with patch("hourline_core.runtime.failpoints.visit", reached), suppress(CrashError):
            planned.apply(NOW)
        self.whole.discard(name)
        self.reads_are_exact()
        self.restart()


def test_the_hours_of_a_reset_metric_are_missing_until_they_are_recomputed() -> None:
    """One story that the walk may not happen to tell."""
    story = ProtocolWithResets()
    try:
        story.first_start()
        story.micro_batch([0, 1, 1], random.Random(1), None)  # noqa: S311 (the same numbers each time)
        story.reset_metric("totals", None)
        assert story._states() == {("totals", "missing")}
        story.everything_recomputed()
        story.reads_are_exact()
    finally:
        story.teardown()


TestProtocolWithResets = ProtocolWithResets.TestCase
TestProtocolWithResets.settings = settings(
    max_examples=int(os.environ.get("PROTOCOL_EXAMPLES", "3")),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
