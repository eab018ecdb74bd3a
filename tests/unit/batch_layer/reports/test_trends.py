"""The pages of trends: a strip with the state of each hour, and a line with its numbers."""

import json
import os
import random
import re
from pathlib import Path

import pytest

from tests.support.quality_rows import row
from tests.support.report_pages import overview, put_page


def cells_of(site: Path, name: str) -> list[dict[str, set[int]]]:
    """Of each strip of a trend, the places in each state, as they are drawn."""
    text = (site / "trends" / f"{name}.html").read_text()
    strips = re.findall(r'<svg class="strip.*?</svg>', text, re.DOTALL)
    drawn = []
    for strip in strips:
        states: dict[str, set[int]] = {}
        for state, path in re.findall(r'<path class="(\w+)" d="([^"]*)"', strip):
            runs = re.findall(r"M(\d+) [-\d.]+h([\d.]+)", path)
            states[state] = {
                place for start, length in runs for place in range(int(start), int(start) + max(1, int(float(length))))
            }
        drawn.append(states)
    return drawn


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [30, 400])
def test_strips_show_the_newest_audit_of_each_hour_and_who_was_overruled(
    tmp_path: Path, seed: int, length: int
) -> None:
    chance = random.Random(f"{seed} {length}")  # noqa: S311 (the same choices each time)
    rows, expected, overall = [], {}, {}
    publication = 0
    for _ in range(length * 2):  # hours are audited again, in any order
        hour = chance.choice([0, length - 1, chance.randrange(length)])
        publication += 1
        outcomes = {}
        for expectation, severity in (("expect_a", "fail"), ("expect_b", "warn")):
            success = chance.random() < 0.8
            rows.append(row(hour, expectation=expectation, severity=severity, success=success, publication=publication))
            outcomes[expectation] = "passed" if success else {"fail": "failed", "warn": "warned"}[severity]
        expected[hour] = outcomes
        overall[hour] = next(state for state in ("failed", "warned", "passed") if state in outcomes.values())
        if overall[hour] == "failed" and chance.random() < 0.5:
            publication += 1
            rows.append(row(hour, expectation="accepted", origin="person", about=None, publication=publication))
            overall[hour] = "accepted"
    blocked = [hour for hour, state in overall.items() if state == "failed" and chance.random() < 0.5]
    overall.update(dict.fromkeys(blocked, "blocked"))
    chance.shuffle(rows)
    overview(tmp_path, rows, *(("views", hour) for hour in blocked))

    def by_state(states: dict[int, str]) -> dict[str, set[int]]:
        return {
            state: {hour - min(expected) for hour in states if states[hour] == state} for state in set(states.values())
        }

    strips = cells_of(tmp_path, "metric-views")
    assert strips[0] == by_state(overall)
    for expectation in ("expect_a", "expect_b"):
        assert by_state({hour: outcomes[expectation] for hour, outcomes in expected.items()}) in strips[1:]
    assert len(strips) == 3


def test_a_line_goes_on_where_its_bounds_change_and_parts_where_two_are_alike(tmp_path: Path) -> None:
    changed = [row(hour, parameters=json.dumps({"max_value": hour // 5})) for hour in range(10)]
    overview(tmp_path, changed)
    assert len(cells_of(tmp_path, "metric-views")) == 1 + 1
    alike = [row(hour, parameters=json.dumps({"max_value": bound})) for hour in range(10) for bound in (1, 2)]
    overview(tmp_path, alike)
    assert len(cells_of(tmp_path, "metric-views")) == 1 + 2


def test_four_weeks_are_shown_and_the_audits_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: object = ".") -> object:
        assert "runs" not in str(path), "the folder of all audits was listed"
        return scandir(str(path))

    put_page(tmp_path, 1)
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    overview(tmp_path, [row(hour) for hour in range(1000)])
    (published, _) = cells_of(tmp_path, "metric-views")
    assert published == {"passed": set(range(28 * 24))}


def test_a_number_that_leaves_its_bounds_is_seen(tmp_path: Path) -> None:
    values = [10.0 + hour % 3 for hour in range(40)] + [500.0]
    overview(
        tmp_path,
        [row(hour, observed=value, lower=5.0, upper=20.0, success=value < 20) for hour, value in enumerate(values)],
    )
    text = (tmp_path / "trends" / "metric-views.html").read_text()
    (drawn,) = re.findall(r'class="values" d="([^"]*)"', text)
    levels = [int(level) for level in re.findall(r"\.5 (\d+)", drawn)]
    assert levels[-1] == 3  # at the upper edge
    assert min(levels[:-1]) >= 3 + 10  # and well above the others
    assert max(levels) - min(levels[:-1]) >= 50  # which are not pressed flat by it
    (dot,) = re.findall(r'class="bad failed" d="([^"]*)"', text)
    assert dot == "M40.5 3h0"
