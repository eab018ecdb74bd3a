"""The condition and the words for people beside an expectation."""

from pathlib import Path
from typing import Any

import duckdb
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import DeclarationError
from hourline_core.model import Expectation, Metric, Source, expectations_hash, load_project
from hourline_core.model.condition import FACTS, Condition, holds

SOURCE = "topic: t\nfields: {a: string, b: int}\nevent_time: a\n"
SIGNS = [">=", "<=", ">", "<", "=", "!="]
COMPARISONS = st.tuples(st.sampled_from(["rows", "hour_of_day"]), st.sampled_from(SIGNS), st.integers(0, 30))


@given(
    parts=st.lists(COMPARISONS, min_size=1, max_size=3),
    space=st.sampled_from(["", " "]),
    rows=st.integers(0, 30),
    hour=st.integers(0, 23),
)
def test_a_condition_holds_as_sql_says(parts: list[tuple[str, str, int]], space: str, rows: int, hour: int) -> None:
    text = " AND ".join(f"{fact}{space}{sign}{space}{number}" for fact, sign, number in parts)
    query = f"SELECT {text} FROM (SELECT {rows} AS rows, {hour} AS hour_of_day)"
    assert [(holds(text, {"rows": rows, "hour_of_day": hour}),)] == duckdb.execute(query).fetchall()


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(FACTS), st.sampled_from(SIGNS), st.integers(0, 26)), min_size=1, max_size=4
    )
)
def test_a_condition_is_refused_exactly_if_no_hour_fulfils_it(parts: list[tuple[str, str, int]]) -> None:
    text = " and ".join(f"{fact} {sign} {number}" for fact, sign, number in parts)
    hours = [{"rows": rows, "hour_of_day": hour} for rows in range(30) for hour in range(24)]
    try:
        pydantic.TypeAdapter(Condition).validate_python(text)
    except pydantic.ValidationError as error:
        assert "which no hour fulfils" in str(error)
        assert not any(holds(text, facts) for facts in hours)
    else:
        assert any(holds(text, facts) for facts in hours)


def project_with(folder: Path, beside: str) -> Any:
    text = f"expectations:\n  - expect_column_to_exist: {{column: n}}\n    {beside}\n"
    for name, content in {
        "hourline.yaml": "",
        "sources/s.yaml": SOURCE,
        "metrics/m.yaml": f"source: s\nmeasures: {{n: count}}\n{text}",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return load_project(folder, {})


FORMS = (
    "allowed are comparisons of rows or hour_of_day with a whole number by >=, <=, >, <, =, !=, joined by `and`, "
    'such as "rows >= 20"'
)


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ('when: "rows >= many"', f"expectations.0.when: got 'rows >= many', {FORMS}"),
        ('when: "rows >= 20 or rows < 3"', f"expectations.0.when: got 'rows >= 20 or rows < 3', {FORMS}"),
        ('when: "rows >= 2.5"', f"expectations.0.when: got 'rows >= 2.5', {FORMS}"),
        ("when: [rows]", "expectations.0.when: got a list, allowed is text"),
        (
            'when: "row > 2"',
            "expectations.0.when: got 'row > 2': an hour has no 'row' — did you mean 'rows'?",
        ),
        *(
            (f'when: "{never}"', f"expectations.0.when: got '{never}', which no hour fulfils: {allowed}")
            for never, allowed in (
                ("hour_of_day >= 24", "hour_of_day is from 0 to 23 (UTC)"),
                ("rows > 3 and hour_of_day > 20 and hour_of_day < 5", "hour_of_day is from 0 to 23 (UTC)"),
                ("rows < 0", "rows is 0 or more"),
                ("rows > 5 and rows < 6", "rows is 0 or more"),
            )
        ),
        (
            "link: javascript:alert(1)",
            "expectations.0.link: got 'javascript:alert(1)', allowed is a URL, such as https://example.com/rules/fares",
        ),
        (
            "link: wiki/fares",
            "expectations.0.link: got 'wiki/fares', allowed is a URL, such as https://example.com/rules/fares",
        ),
        ("owner: {a: b}", "expectations.0.owner: got a mapping, allowed is text"),
        (
            "onwer: me",
            "expectations.0: got 2 expectations in one item of the list (expect_column_to_exist, onwer), allowed is one, "
            "`expect_…: {parameter: value, …}`, and beside it severity, about, when, owner, description and link",
        ),
    ],
)
def test_a_mistake_beside_an_expectation_is_told_with_file_and_line(tmp_path: Path, beside: str, said: str) -> None:
    line = 4 if beside.startswith("onwer") else 5
    with pytest.raises(DeclarationError) as caught:
        project_with(tmp_path, beside)
    assert str(caught.value).splitlines() == [f"metrics/m.yaml:{line}: {said}"]


def test_what_stands_beside_an_expectation_is_declared(tmp_path: Path) -> None:
    project = project_with(
        tmp_path, 'when: "rows >= 20"\n    owner: desk\n    description: why\n    link: http://x.org/a'
    )
    (expectation,) = project.metrics["m"].expectations
    assert (expectation.when, expectation.owner, expectation.description, expectation.link) == (
        "rows >= 20",
        "desk",
        "why",
        "http://x.org/a",
    )


def test_words_for_people_are_no_other_expectation(tmp_path: Path) -> None:
    """An hour is not audited again because a link has changed, but because a condition has."""
    project = project_with(tmp_path, "owner: desk")
    source, metric = project.sources["s"], project.metrics["m"]
    (told,) = metric.expectations

    def hashed(source: Source, metric: Metric, **changes: str) -> str:
        changed = Expectation(**{**told.model_dump(), **changes})
        return expectations_hash(source, metric.model_copy(update={"expectations": [changed]}))

    assert hashed(source, metric, owner="other", link="http://x.org") == expectations_hash(source, metric)
    assert hashed(source, metric, when="rows >= 2") != expectations_hash(source, metric)
    assert hashed(source, metric, about="window") != expectations_hash(source, metric)
