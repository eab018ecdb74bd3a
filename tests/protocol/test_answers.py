"""What an answer says of itself: what each layer contributes to it, as of what it is, and whether a strict reader may
rest on it.
"""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import serving_layer
from batch_layer.publication import Publication
from hourline.cli import run
from hourline_core.errors import UnreliableResultError, UsageError
from hourline_core.feed.feed_position import FeedPosition
from hourline_core.ledger.token import AnswerToken
from speed_layer.commit.maintenance import maintain_source
from tests.support import bare_tables
from tests.support.bare_tables import BASE, METRICS, TILINGS, BareTables, hour
from tests.support.project_files import write_project

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    """Hours 0 and 1 are final, 2 is revised, 3 provisional."""
    tables = BareTables(tmp_path, hours=[0, 1, 2, 2, 1, 2, 3, 3])
    tables.start()
    tables.micro_batch(4)
    tables.publish(0, 1, 2)
    tables.micro_batch(1)
    tables.publish(1)
    tables.micro_batch(3)
    return tables


def test_each_layer_alone_gives_what_it_contributes(tables: BareTables) -> None:
    for _ in range(2):  # before maintenance has pruned what is covered, and after it
        with serving_layer.connect(tables.project) as connection:
            final = connection.sql("SELECT hour, n, state FROM totals_final ORDER BY hour").fetchall()
            provisional = connection.sql("SELECT hour, n, state FROM totals_provisional ORDER BY hour").fetchall()
            types = {tuple(connection.sql(f"FROM totals{end}").types) for end in ("", "_final", "_provisional")}
        assert final == [(hour(0), 1, "final"), (hour(1), 2, "final"), (hour(2), 2, "revised")]
        assert provisional == [(hour(2), 1, "revised"), (hour(3), 2, "provisional")]
        assert len(types) == 1
        maintain_source(tables.project, tables.source_tables)


def test_before_anything_is_published_the_final_layer_is_empty(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0])
    tables.start()
    tables.micro_batch(1)
    with serving_layer.connect(tables.project) as connection:
        assert connection.sql("FROM totals_final").fetchall() == []
        assert connection.sql("FROM publications").fetchall() == []
        assert connection.sql("FROM totals_provisional").fetchall() == connection.sql("FROM totals").fetchall()


def test_publications_tell_each_time_that_an_hour_was_published(tables: BareTables) -> None:
    tables.publish(0, 2, metrics=["totals"], blocked=[2])
    with serving_layer.connect(tables.project) as connection:
        told = connection.sql(
            "SELECT publication, published, hour, cutoff, current FROM publications WHERE metric = 'totals' ORDER BY ALL"
        ).fetchall()
    assert told == [
        (1, BASE, hour(0), 1, False),
        (1, BASE, hour(1), 1, False),
        (1, BASE, hour(2), 1, True),  # the blocked hour keeps what readers had
        (2, BASE, hour(1), 2, True),
        (3, BASE, hour(0), 3, True),
    ]


def test_a_declaration_that_takes_over_publishes_hours_with_the_cuts_that_they_had(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        taking_over = "SELECT * REPLACE (9 AS publication, 9 AS cutoff) FROM _drift WHERE publication = 1"
        connection.database.execute(f"CREATE OR REPLACE VIEW hourline.drift AS FROM _drift UNION ALL {taking_over}")
        told = connection.sql(
            "SELECT publication, hour, cutoff FROM publications WHERE metric = 'totals' AND current ORDER BY ALL"
        ).fetchall()
    assert told == [(9, hour(0), 1), (9, hour(1), 2), (9, hour(2), 1)]


def test_the_same_state_of_the_tables_has_the_same_token_and_another_one_another(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, hours=[0, 1])
    tables.start()

    def token() -> str:
        with serving_layer.connect(tables.project) as connection, serving_layer.connect(tables.project) as again:
            assert connection.token == again.token
            return connection.token

    tokens = [token()]
    Publication(tables.project)  # makes coverage, empty
    with serving_layer.connect(tables.project) as connection:
        assert AnswerToken.of(connection.snapshot) == AnswerToken.parse(tokens[0])
    steps: list[Callable[[], None]] = [lambda: tables.micro_batch(1), lambda: tables.publish(0)]
    for step in (*steps, *steps):
        step()
        tokens.append(token())
    assert tokens == ["p0-clicks.0", "p0-clicks.1", "p1-clicks.1", "p1-clicks.2", "p2-clicks.2"]


@given(st.none() | st.integers(1, 10**9), st.dictionaries(NAMES, st.integers(0, 10**12), max_size=4))
def test_a_token_is_read_as_it_was_written(publication: int | None, sequences: dict[str, int]) -> None:
    token = AnswerToken(publication, sequences)
    assert AnswerToken.parse(f" {token}\n") == token
    # So is a position in the feed, which stands for its token.
    position = FeedPosition(str(token), 17, 2)
    assert FeedPosition.parse(f" {position}\n") == position
    assert AnswerToken.parse(str(position)) == token
    assert FeedPosition.parse(str(token)) == FeedPosition(str(token), None, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12",
        "p",
        "p12-",
        "p12-flights",
        "p12-flights.x",
        "p12 flights.3",
        "2026-03-01",
        "p12-flights.3-flights.4",
        "p12-flights.3~f1",
    ],
)
def test_what_is_no_token_gets_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="is neither a token nor a time"):
        AnswerToken.parse(text)


def test_an_answer_tells_the_states_of_its_hours(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        assert connection.states(f"FROM totals WHERE hour >= '{hour(1)}'") == [
            ("totals", hour(1), "final"),
            ("totals", hour(2), "revised"),
            ("totals", hour(3), "provisional"),
        ]
        with pytest.raises(UsageError, match="exactly one SELECT"):
            connection.states("SELECT 1; SELECT 2")
        with pytest.raises(UsageError, match="cannot be answered"):
            connection.states("FROM totals WHERE hour > 'noon'")


@pytest.mark.parametrize("function", ["distinct_count", "distinct_merge", "quantile_merge"])
def test_a_function_that_merges_states_names_the_view_that_has_them(tables: BareTables, function: str) -> None:
    said = f"{function} merges states, which 'totals_states' has; other views have finished values"
    with serving_layer.connect(tables.project) as connection, pytest.raises(UsageError, match=f"answered: {said}$"):
        connection.sql(f"SELECT {function}(n) FROM totals")


@pytest.fixture
def weak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BareTables:
    """Of both metrics, hours 2 and 3 are good; hour 1 of `totals` is blocked, and of `odd`, which came later, missing."""
    tables = BareTables(tmp_path, hours=[0, 1, 2, 3, 3])
    monkeypatch.setattr(bare_tables, "TILINGS", TILINGS[:1])
    tables.start()
    tables.micro_batch(2)
    monkeypatch.setattr(bare_tables, "TILINGS", TILINGS)
    tables.start()
    tables.micro_batch(3)
    tables.publish(0, 1, 2, metrics=["totals"], blocked=[1])
    return tables


def test_a_strict_connection_refuses_what_rests_on_missing_or_blocked_hours(weak: BareTables) -> None:
    with serving_layer.connect(weak.project, strict=True) as strict, serving_layer.connect(weak.project) as lenient:
        for query in (
            "FROM totals",
            "FROM odd",
            f"FROM odd WHERE hour < '{hour(3)}'",
            "SELECT count(*) FROM totals_final",
        ):
            lenient.sql(query).fetchall()
            with pytest.raises(UnreliableResultError) as refused:
                strict.sql(query)
            told = (
                "'odd' 2024-03-01T00:00Z missing, 2024-03-01T01:00Z missing"
                if "odd" in query
                else "'totals' 2024-03-01T01:00Z blocked"
            )
            assert f"would include unreliable hours: of {told}; " in str(refused.value)
            assert ("`hourline recompute` computes them" if "odd" in query else "`hourline quality --blocked`") in str(
                refused.value
            )
        for query in (
            f"FROM totals WHERE hour <> '{hour(1)}'",
            f"FROM odd WHERE hour > '{hour(1)}'",
            "FROM hours",
            "FROM totals_staged",
        ):
            assert sorted(strict.sql(query).fetchall()) == sorted(lenient.sql(query).fetchall())


def test_a_strict_connection_says_first_what_is_wrong_with_the_query(weak: BareTables) -> None:
    with serving_layer.connect(weak.project, strict=True) as strict:
        with pytest.raises(UsageError, match=r"there is no column 'm' \(there is: hour, n, state\)"):
            strict.sql("SELECT m FROM totals")
        of_hours = r"there is no column 'zone' \(there is: closed, events, hour, kind, late, name, state\)"
        for query in ("SELECT zone FROM hours", "SELECT h.zone FROM hours h WHERE h.late > 0"):
            with pytest.raises(UsageError, match=of_hours):
                strict.sql(query)
        with pytest.raises(UsageError, match="exactly one SELECT"):
            strict.sql("DROP TABLE totals")


def test_the_command_line_refuses_and_says_as_of_what(
    weak: BareTables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sums = {f"metrics/{name}.yaml": f"source: clicks\nmeasures: {{n: sum(n)}}\n{where(name)}" for name in METRICS}
    source = "topic: clicks\nfields: {n: long, at: string}\nevent_time: at\n"
    folder = write_project(weak.project.root, {"hourline.yaml": "", "sources/clicks.yaml": source, **sums})
    good, outside = (
        f"SELECT n FROM totals WHERE hour = '{hour(3)}'",
        f"SELECT n FROM totals WHERE hour > '{hour(3) + timedelta(hours=1)}'",
    )

    def query(*arguments: str, terminal: bool = False) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hourline", "query", *arguments, "--project", str(folder)])
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
        with pytest.raises(SystemExit) as ended:
            run()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    status, output, said = query("FROM totals", "--strict", "--format", "csv")
    assert (status, output, said.count("\n")) == (1, "", 1)
    assert "of 'totals' 2024-03-01T01:00Z blocked" in said
    assert query(good, "--strict", "--format", "csv") == (0, "n\n2\n", "")
    assert query(good) == (0, "n\n2\n", "")
    assert query(good, terminal=True) == (0, "n\n2\n", "as of p1-clicks.3 · 1 provisional\n")
    assert query(outside, terminal=True)[2] == "as of p1-clicks.3\n"
    assert query(good, "--format", "csv", terminal=True) == (0, "n\n2\n", "as of p1-clicks.3 · 1 provisional\n")


def where(metric: str) -> str:
    condition = METRICS[metric].where
    return f"where: {condition}\n" if condition else ""


def test_a_connection_shows_itself(tables: BareTables) -> None:
    with serving_layer.connect(tables.project) as connection:
        assert repr(connection) == f"<{tables.project.name} as of p2-clicks.3>"
        page = connection._repr_html_()
        for name in ("p2-clicks.3", "totals", "totals_provisional", "publications", "events_clicks"):
            assert f"<code>{name}</code>" in page
        for name in connection.views:
            connection.sql(f"FROM {name}").fetchall()
