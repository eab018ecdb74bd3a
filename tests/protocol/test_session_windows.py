"""A session is all events of its group that follow each other within the gap, whatever was recomputed, came late, came
twice, or lies on either side of an hour, a day or a cutoff. Its state is the weakest of the hours that it depends on.
It is revised exactly if an event above the cutoff of its hour belongs to it, or has made it begin or end elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.errors import UsageError
from hourline_core.model.hour_state import WEAKEST_FIRST
from hourline_core.model.rollup import ResolvedRollup
from hourline_core.sql.literals import literal
from hourline_core.sql.session_windows import Starts, session_rows_sql
from serving_layer.reports.windows import explain_window
from tests.support.examples import examples
from tests.support.visit_strategies import micro_batches
from tests.support.visits import Visit, Visits, hour, values
from tests.support.visits_tables import serving
from tests.support.window_oracle import parse_window

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = 20
HOURS = st.integers(FIRST, FIRST + 9)
VISITS = micro_batches(HOURS, most=12)
RECOMPUTES = st.tuples(st.sets(HOURS, min_size=1, max_size=8), st.sets(HOURS, max_size=2))
STEPS = st.lists(st.one_of(VISITS, VISITS, RECOMPUTES), min_size=1, max_size=6)


@dataclass(frozen=True)
class Sessions:
    gap: timedelta
    longest: timedelta = timedelta(hours=24)

    @property
    def yaml(self) -> str:
        return f"{{gap: {self.gap // timedelta(minutes=1)}m, max_length: {self.longest // HOUR}h}}"


DECLARED = [
    Sessions(timedelta(minutes=1)),
    Sessions(timedelta(minutes=7)),
    Sessions(timedelta(minutes=30)),
    Sessions(timedelta(minutes=45), timedelta(hours=3)),
    Sessions(timedelta(minutes=61), timedelta(hours=2)),
    Sessions(timedelta(minutes=150), timedelta(hours=5)),
]


def split(times: list[datetime], declared: Sessions) -> list[tuple[datetime, datetime]]:
    """The start and end of each session of the events at ``times``, one event after the other."""
    chains: list[list[datetime]] = []
    for time in sorted(times):
        if chains and time - chains[-1][-1] <= declared.gap:
            chains[-1].append(time)
        else:
            chains.append([time])
    found = []
    for chain in chains:
        if chain[-1] - chain[0] <= declared.longest:
            found.append((chain[0], chain[-1] + declared.gap))
            continue
        for number, part in groupby(chain, key=lambda time: (time - _EPOCH) // declared.longest):
            of_piece, cut = list(part), _EPOCH + (number + 1) * declared.longest
            found.append((of_piece[0], min(of_piece[-1] + declared.gap, cut)))
    return found


def expected(visits: Visits, declared: Sessions, states: Mapping[datetime, str]) -> dict[Any, Any]:
    """By start, end, page and slow: the measures and the state, counted visit by visit."""
    counted = [v for number in range(FIRST, FIRST + 10) for v in visits.final(number) + visits.provisional(number)]
    late = {v for v in counted if v.hour in visits.cutoffs and v.sequence > visits.cutoffs[v.hour]}
    answer: dict[Any, Any] = {}
    for group in {(v.page, v.slow) for v in counted}:
        of_group = [v for v in counted if (v.page, v.slow) == group]
        without_late = split([v.time for v in of_group if v not in late], declared)
        for start, end in split([v.time for v in of_group], declared):
            within = [v for v in of_group if start <= v.time and (v.time < end or v.time == end - declared.gap)]
            revised = bool(late.intersection(within)) or (start, end) not in without_late
            hours = [state for one, state in states.items() if one + HOUR > start - declared.gap and one <= end]
            known = [state for state in hours if state != "revised"] + (["revised"] if revised else [])
            passed = [] if end < visits.clock else ["provisional"]
            state = min(["final", *known, *passed], key=WEAKEST_FIRST.index)
            answer[start, end, *group] = (*values(within).values(), state)
    return answer


def after(folder: Path, steps: list[Any], declared: Sessions) -> Visits:
    """A workspace after these micro-batches and recomputes."""
    visits = Visits(folder, declared.yaml)
    visits.start()
    visits.micro_batch(Visit(FIRST, "a", 5))
    for step in steps:
        if isinstance(step, list):
            visits.micro_batch(*step)
        else:
            visits.publish(*sorted(step[0] | step[1]), blocked=step[1])
    return visits


def answered(connection: serving_layer.Connection, condition: str = "true") -> dict[Any, Any]:
    rows = connection.sql(f"FROM loads WHERE {condition}").fetchall()
    assert len({row[:4] for row in rows}) == len(rows)
    return {row[:4]: row[4:] for row in rows}


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param(one, marks=() if one in (DECLARED[0], DECLARED[2], DECLARED[3]) else pytest.mark.long)
        for one in DECLARED
    ],
    ids=lambda declared: declared.yaml,
)
@settings(max_examples=examples(4))
@given(steps=STEPS)
def test_a_session_is_all_events_within_the_gap(declared: Sessions, steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        visits = after(Path(folder), steps, declared)
        with serving_layer.connect(visits.project) as connection:
            states = dict(connection.sql("SELECT hour, state FROM hours WHERE name = 'loads'").fetchall())
            wanted = expected(visits, declared, states)
            assert answered(connection) == wanted
            listed = connection.sql("SELECT window_start, window_end, state FROM windows").fetchall()
            bounds = {key[:2] for key in wanted}
            of_bounds = {one: [row[-1] for key, row in wanted.items() if key[:2] == one] for one in bounds}
            assert sorted(listed) == sorted((*one, min(of, key=WEAKEST_FIRST.index)) for one, of in of_bounds.items())
            chosen = sorted(wanted, key=str)[0]
            condition = f"window_start = '{chosen[0]}'"
            kept = {key: row for key, row in wanted.items() if key[0] == chosen[0]}
            assert answered(connection, condition) == kept
            rests_on = {one.hour for one in connection.states(f"SELECT sum(visits) FROM loads WHERE {condition}")}
            assert rests_on == {h for h in states for start, end, *_ in kept if start < h + HOUR and h < end}
            # Those that start in some hours are found in the hours around these.
            (tables,) = (one for one in connection.served if one.metric.name == "loads")
            first, last = hour(FIRST + 3), hour(FIRST + 6)
            rows = connection.database.execute(f"FROM ({session_rows_sql(tables, Starts.of(first, last))})").fetchall()
            assert {row[:2] for row in rows} == {key[:2] for key in wanted if first <= key[0] <= last}
            hourly = connection.sql("SELECT sum(visits) FROM loads_hours").fetchall()
            assert hourly == connection.sql("SELECT sum(visits) FROM loads").fetchall()


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    """Sessions with a gap of 30 minutes. Those of page a run from 00:50 to 01:20 and from 01:51 to 02:10. Hours 0 to 2
    are final, and 5 is provisional.
    """
    visits = Visits(tmp_path, "{gap: 30m}", drift=True)
    visits.start()
    minutes = (50, 60, 80, 111, 130)
    visits.micro_batch(*(Visit(minute // 60, "a", 5, minute=minute % 60) for minute in minutes), Visit(0, "b", 900))
    visits.micro_batch(Visit(5, "a", 5))
    visits.publish(0, 1, 2)
    return visits


def test_a_late_event_joins_two_final_sessions(visits: Visits) -> None:
    of_a = (
        "SELECT window_start, window_end, visits, state FROM loads WHERE page = 'a' AND window_start < {} ORDER BY ALL"
    )
    query = of_a.format(literal(hour(5)))
    with serving_layer.connect(visits.project) as connection:
        assert connection.sql(query).fetchall() == [
            (at(50), at(110), 3, "final"),
            (at(111), at(160), 2, "final"),
        ]
    visits.micro_batch(Visit(1, "a", 5, minute=50))
    with serving_layer.connect(visits.project) as connection:
        assert connection.sql(query).fetchall() == [(at(50), at(160), 6, "revised")]
    visits.publish(1)
    with serving_layer.connect(visits.project) as connection:
        assert connection.sql(query).fetchall() == [(at(50), at(160), 6, "final")]
        assert connection.sql("SELECT DISTINCT closed FROM windows WHERE state = 'final'").fetchall() == [(True,)]
        drift = "SELECT hour, cause, amount FROM drift WHERE measure = 'visits' AND amount <> 0"
        assert connection.sql(drift).fetchall() == [(hour(1), "late", 1.0)]


def test_a_late_event_within_a_session_revises_it_and_no_other_session_of_its_hour(visits: Visits) -> None:
    visits.micro_batch(Visit(1, "a", 5, minute=15))
    of_a = f"SELECT window_start, window_end, visits, state FROM loads WHERE page = 'a' AND window_start < '{hour(5)}'"
    with serving_layer.connect(visits.project) as connection:
        assert sorted(connection.sql(of_a).fetchall()) == [
            (at(50), at(110), 4, "revised"),
            (at(111), at(160), 2, "final"),
        ]


def test_a_late_event_that_cuts_a_chain_revises_the_pieces_that_it_changes_and_no_other_session(tmp_path: Path) -> None:
    visits = Visits(tmp_path, "{gap: 1h, max_length: 2h}")
    visits.start()
    chain = [Visit(9, page, 5, minute=minute) for page in "ab" for minute in (15, 55)]
    chain += [Visit(10, page, 5, minute=minute) for page in "ab" for minute in (35, 55)]
    visits.micro_batch(*chain, Visit(20, "a", 5))
    visits.publish(*range(8, 14))
    states = "SELECT page, window_start, window_end, visits, state FROM loads WHERE window_start < {} ORDER BY ALL"
    query = states.format(literal(hour(20)))
    whole = [(page, at(9 * 60 + 15), at(11 * 60 + 55), 4, "final") for page in "ab"]
    with serving_layer.connect(visits.project) as connection:
        assert connection.sql(query).fetchall() == whole
    visits.micro_batch(Visit(11, "a", 5, minute=35))
    with serving_layer.connect(visits.project) as connection:
        assert connection.sql(query).fetchall() == [
            ("a", at(9 * 60 + 15), hour(10), 2, "revised"),
            ("a", hour(10) + 35 * MINUTE, hour(12), 3, "revised"),
            whole[1],
        ]
        explained = explain_window(connection, "loads", hour(9) + 30 * MINUTE, {"page": "a", "slow": "false"})
        assert explained.state == "revised"
        weakest = "SELECT weakest_hour FROM windows WHERE state = 'revised'"
        assert connection.sql(weakest).fetchall() == [(hour(11),), (hour(11),)]
    visits.publish(11)
    with serving_layer.connect(visits.project) as connection:
        assert {row[-1] for row in connection.sql(query).fetchall()} == {"final"}


def test_an_event_just_the_gap_later_is_of_the_session_and_one_after_that_is_not(visits: Visits) -> None:
    visits.micro_batch(Visit(5, "a", 5, minute=30))
    with serving_layer.connect(visits.project) as connection:
        ends = "SELECT window_end FROM loads WHERE page = 'a' AND window_start >= {}"
        assert connection.sql(ends.format(literal(hour(5)))).fetchall() == [(hour(6),)]
    visits.micro_batch(Visit(6, "a", 5, minute=1))
    with serving_layer.connect(visits.project) as connection:
        assert len(connection.sql(ends.format(literal(hour(5)))).fetchall()) == 2


def test_a_session_is_explained_by_what_its_hours_contribute(visits: Visits) -> None:
    with serving_layer.connect(visits.project) as connection:
        group: dict[str, str | None] = {"page": "a", "slow": "false"}
        explained = explain_window(connection, "loads", at(75), group)
        assert (explained.window_start, explained.window_end, explained.state) == (at(50), at(110), "final")
        assert explained.measures["visits"] == 3
        assert [(one.hour, one.measures["visits"]) for one in explained.hours] == [(hour(0), 1), (hour(1), 2)]
        with pytest.raises(UsageError, match="has the events of one group; give a value of slow, too"):
            explain_window(connection, "loads", at(75), {"page": "a"})


@pytest.mark.parametrize(
    ("page", "number", "nearest"),
    [
        (
            "a",
            3,
            "the nearest are from 2024-03-01 01:51 to 2024-03-01 02:40 and from 2024-03-01 05:00 to 2024-03-01 05:30",
        ),
        ("a", 0, "the nearest is from 2024-03-01 00:50 to 2024-03-01 01:50"),
        ("a", 9, "the nearest is from 2024-03-01 05:00 to 2024-03-01 05:30"),
        ("b", 3, "it has none yet"),
    ],
)
def test_where_there_is_no_session_the_nearest_ones_are_named(
    visits: Visits, page: str, number: int, nearest: str
) -> None:
    group: dict[str, str | None] = {"page": page, "slow": "false"}
    with serving_layer.connect(visits.project) as connection, pytest.raises(UsageError) as refused:
        explain_window(connection, "loads", hour(number), group)
    none = f"no session of 'loads', page '{page}', slow 'false' contains 2024-03-01 0{number}:00 UTC"
    assert str(refused.value) == f"{none}; {nearest}"


def test_a_session_over_http_is_asked_for_by_all_its_dimensions(visits: Visits) -> None:
    with serving(visits.project) as client:
        fewer = client.get("/api/v1/metrics/loads", params={"dimension": "page"})
        assert "leave `dimension` out, ask with `grain=hour`, or declare" in fewer.json()["error"]
        at_one = f"/api/v1/explain/loads/windows/{hour(1):%FT%H:%M}"
        for where, status in (["page:a"], 400), (["page:a", "slow:false"], 200), (["page:b", "slow:false"], 404):
            assert client.get(at_one, params={"where": where}).status_code == status


def test_another_gap_with_the_same_panes_needs_no_recompute(visits: Visits) -> None:
    ends = "SELECT window_end FROM loads WHERE page = 'a' AND window_start = {}"
    for gap, end in ((30, 110), (31, 161), (59, 189)):
        loads = visits.metric.model_copy(update={"window": parse_window(f"{{gap: {gap}m}}")})
        project = replace(visits.project, metrics={**visits.project.metrics, "loads": loads})
        with serving_layer.connect(project) as connection:
            assert connection.sql(ends.format(literal(at(50)))).fetchall() == [(at(end),)]


def test_a_metric_over_sessions_has_those_of_its_own_dimensions(visits: Visits) -> None:
    visits.micro_batch(Visit(0, "b", 5, minute=25), Visit(1, "b", 5, minute=35))
    metric = visits.metric.model_copy(update={"name": "of_all", "dimensions": {}})
    days = metric.model_copy(update={"name": "days", "window": parse_window("1 day")})
    over = {one.name: ResolvedRollup(one, "loads") for one in (metric, days)}
    with serving_layer.connect(replace(visits.project, rollups=over)) as connection:
        found = connection.sql("SELECT window_start, window_end, visits FROM of_all ORDER BY ALL").fetchall()
        assert found == [(hour(0), at(160), 8), (hour(5), at(330), 1)]
        assert connection.sql("SELECT window_start, visits FROM days").fetchall() == [(hour(0), 9)]
    visits.publish(0, 1, 2, 3)
    visits.micro_batch(Visit(2, "b", 900, minute=50))
    states = "SELECT window_start, state FROM {} ORDER BY ALL"
    with serving_layer.connect(replace(visits.project, rollups=over)) as connection:
        # It joins no session of its group, nor of all groups together. Only its hour, and its day, are revised.
        assert connection.sql(states.format("of_all")).fetchall() == [
            (hour(0), "final"),
            (at(170), "revised"),
            (hour(5), "provisional"),
        ]
    visits.micro_batch(Visit(2, "c", 5, minute=30))
    with serving_layer.connect(replace(visits.project, rollups=over)) as connection:
        assert connection.sql(states.format("of_all")).fetchall()[0] == (hour(0), "revised"), "it is joined"
        assert dict(connection.sql(states.format("loads")).fetchall())[at(50)] == "final", "its group is another"


def test_sessions_in_a_missing_hour_are_not_known(tmp_path: Path) -> None:
    visits = Visits(tmp_path, "{gap: 30m}")
    visits.start(knows_metric=False)
    visits.micro_batch(Visit(0, "a", 5, minute=50))
    visits.start()
    visits.micro_batch(Visit(1, "a", 5, minute=10), Visit(1, "a", 5, minute=45), Visit(4, "a", 5))
    with serving_layer.connect(visits.project) as connection:
        assert connection.sql("SELECT window_start, state FROM windows ORDER BY ALL").fetchall() == [
            (hour(0), "missing"),
            (at(105), "provisional"),
            (hour(4), "provisional"),
        ]
        assert [start for (start,) in connection.sql("SELECT window_start FROM loads ORDER BY ALL").fetchall()] == [
            at(105),
            hour(4),
        ]


def test_sessions_over_http_are_those_that_start_in_the_hours_asked_for(visits: Visits) -> None:
    with serving(visits.project) as client:
        answer = client.get("/api/v1/metrics/loads", params={"from": "2024-03-01T01", "to": "2024-03-01T03"}).json()
        assert [(row["window_start"], row["page"], row["visits"], row["state"]) for row in answer["rows"]] == [
            ("2024-03-01T01:51:00.000000Z", "a", 2, "final")
        ]
        assert answer["states"] == {"final": 2}
        within = {"from": "2024-03-01T01", "to": "2024-03-01T02"}
        listed = client.get("/api/v1/metrics/loads/windows", params=within).json()["windows"]
        assert [one["window_start"][11:16] for one in listed] == ["01:51", "00:50"]
        refused = client.get("/api/v1/metrics/loads", params={"dimension": "page"})
        assert refused.status_code == 400
        assert "'loads' has a session for each group of all its dimensions" in refused.text
        hourly = client.get("/api/v1/metrics/loads", params={"dimension": "page", "grain": "total", "where": "page:a"})
        assert [row["visits"] for row in hourly.json()["rows"]] == [6]


def test_sessions_before_1970_are_cut_and_closed_as_those_after(tmp_path: Path) -> None:
    declared = Sessions(timedelta(minutes=45), timedelta(hours=2))
    visits = Visits(tmp_path, declared.yaml)
    first = (_EPOCH - hour(0)) // HOUR - 6  # 18:00
    visits.clock = hour(first)
    visits.start()
    chain = [Visit(first + minute // 60, "a", 5, minute=minute % 60) for minute in range(40, 201, 40)]
    visits.micro_batch(*chain, Visit(first + 1, "b", 5, minute=5))
    wanted = [*split([visit.time for visit in chain], declared), *split([hour(first) + 65 * MINUTE], declared)]
    assert sorted(f"{end:%d %H:%M}" for _, end in wanted) == ["31 19:50", "31 20:00", "31 22:00"]
    with serving_layer.connect(visits.project) as connection:
        found = connection.sql("SELECT window_start, window_end, closed FROM windows").fetchall()
    assert {row[:2] for row in found} == set(wanted)
    assert {f"{end:%H:%M}" for _, end, closed in found if closed} == {"19:50"}  # The clock is at 21:20.


def at(minute: int) -> datetime:
    return hour(0) + timedelta(minutes=minute)
