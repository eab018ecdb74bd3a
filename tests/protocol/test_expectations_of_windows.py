"""What is expected of windows is evaluated by each recompute that completes one, on what readers would get, and fails
the recomputed hours that the window touches.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.audit.findings import Finding
from batch_layer.audit.validator import Validator
from batch_layer.audit.window_results import validate_windows
from hourline_core.model import Expectation, Metric, Project
from hourline_core.model.hours import hour_text
from hourline_core.sql.database import open_database
from hourline_core.sql.sketches import install_sketch_functions
from tests.support.visits import Visit, Visits, first_of_each, hour, tiles
from tests.support.window_oracle import DECLARED, HOUR, WITH_PANES, Declared, windows_of

VALIDATOR = Validator()
HOURS = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.lists(
            st.builds(
                Visit, hour=HOURS, page=st.sampled_from("ab"), ms=st.sampled_from([5, 900]), minute=st.integers(0, 59)
            ),
            min_size=1,
            max_size=8,
        ),
        st.sets(HOURS, min_size=8),
    ),
    min_size=1,
    max_size=6,
)
MOST = 3
"""The number of visits that a window, and a row of it, may have."""
SUM = Expectation(
    type="expect_column_sum_to_be_between", parameters={"column": "visits", "max_value": MOST}, about="window"
)
ROWS = Expectation(
    type="expect_column_values_to_be_between", parameters={"column": "visits", "max_value": MOST}, about="window"
)
SHORT = [one for one in [*DECLARED, *WITH_PANES] if one.unit != "month" and one.count * one.every < 24 * 60 * 60]


def expecting(project: Project, *expectations: Expectation) -> Project:
    loads = project.metrics["loads"].model_copy(update={"expectations": list(expectations)})
    return replace(project, metrics={"loads": loads})


def audited(visits: Visits, metric: Metric, recomputed: Collection[int]) -> list[Finding]:
    """What the audit of a recompute of these hours finds."""
    counted = first_of_each(visits.visits)
    staged = tiles((visit for visit in counted if visit.hour in recomputed), visits.metric)
    with open_database(visits.project) as (connection, snapshot):
        install_sketch_functions(connection)
        hours = [hour(number) for number in sorted(recomputed)]
        return validate_windows(VALIDATOR, connection, snapshot.metrics[0], metric, hours, staged).findings


def complete(visits: Visits, declared: Declared, known: Collection[datetime], recomputed: Collection[int]) -> Any:
    """By complete window, the visits in it that readers would get."""
    published = {hour(number) for number in (*visits.cutoffs, *recomputed)}
    for start, end in windows_of(declared, [hour(number) for number in recomputed]).items():
        of_window = {one for one in known if start < one + HOUR and one < end}
        first = start.replace(minute=0)
        is_known = end <= visits.clock or len(of_window) == -(-(end - first) // HOUR)
        if is_known and of_window <= published:
            counted = [v for v in first_of_each(visits.visits) if v.hour in recomputed]
            counted += [v for number in visits.cutoffs if number not in recomputed for v in visits.final(number)]
            yield (start, end), [v for v in counted if start <= v.time < end]


@pytest.mark.parametrize("declared", SHORT, ids=lambda declared: declared.yaml)
@settings(max_examples=4)
@given(steps=STEPS, recomputed=st.sets(HOURS, min_size=1))
def test_a_complete_window_fails_the_recomputed_hours_that_it_touches(
    declared: Declared, steps: list[Any], recomputed: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        visits = Visits(Path(folder), declared.yaml)
        visits.start()
        visits.micro_batch(Visit(0, "a", 5), Visit(30, "a", 5))
        for step in steps:
            if isinstance(step, list):
                visits.micro_batch(*step)
            else:
                visits.publish(*sorted(step))
        metric = expecting(visits.project, SUM, ROWS).metrics["loads"]
        with open_database(visits.project) as (connection, snapshot):
            table = f"hourline.hours_{snapshot.metrics[0].name}"
            known = [one for (one,) in connection.execute(f"SELECT hour FROM {table}").fetchall()]
        recomputed = {number for number in recomputed if hour(number) in known}
        wanted = set()
        for (start, end), counted in complete(visits, declared, known, recomputed):
            groups = {(v.page, v.slow) for v in counted}
            largest = max((sum((v.page, v.slow) == group for v in counted) for group in groups), default=0)
            touched = {hour_text(hour(n)) for n in recomputed if start < hour(n + 1) and hour(n) < end}
            if counted:
                wanted |= {(one, SUM.type, len(counted) <= MOST) for one in touched}
                wanted |= {(one, ROWS.type, largest <= MOST) for one in touched}
        wanted -= {(one, kind, True) for one, kind, success in wanted if not success}
        found = audited(visits, metric, recomputed) if recomputed else []
        assert {(one.hour, one.check.type, one.success) for one in found} == wanted
        assert len(found) == len(wanted)
