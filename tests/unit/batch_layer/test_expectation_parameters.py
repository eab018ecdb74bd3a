"""Which parameters of expectations are refused when they are declared, with the line and what is allowed."""

from pathlib import Path
from typing import get_args

import pytest
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

from batch_layer.audit.declared_expectations import _SET_BY_HOURLINE, Check, UnsuitableExpectationError, build_checks
from batch_layer.audit.expectation_mistakes import find_mistakes_in
from batch_layer.audit.validator import Validator
from hourline import load_project
from hourline_core.model import Expectation
from hourline_core.model.base import QuotedText
from tests.support.project_files import write_project


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


BETWEEN_N = "expect_column_values_to_be_between: {column: n, "


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (
            BETWEEN_N + "min_value: many}",
            "min_value: got 'many', allowed is a finite number, since 'n' is of type double",
        ),
        (
            BETWEEN_N + "max_value: nan}",
            "max_value: got 'nan', allowed is a finite number, since 'n' is of type double",
        ),
        (
            BETWEEN_N + "min_value: -inf}",
            "min_value: got '-inf', allowed is a finite number, since 'n' is of type double",
        ),
        (
            BETWEEN_N + "min_value: 3, max_value: 2}",
            "max_value: got '2', allowed is at least min_value, which is '3'",
        ),
        (
            BETWEEN_N + "min_value: 1, mostly: 0}",
            "mostly: got '0', allowed is a share of the rows, more than 0 and at most 1",
        ),
        (
            BETWEEN_N + "min_value: 1, mostly: 1.5}",
            "mostly: got '1.5', allowed is a share of the rows, more than 0 and at most 1",
        ),
        (
            "expect_column_max_to_be_between: {column: newest, max_value: soon}",
            "max_value: got 'soon', allowed is a date or time such as 2024-03-01, since 'newest' is of type timestamp",
        ),
        (
            "expect_column_values_to_be_between: {column: page, max_value: 3}",
            "max_value: got '3', allowed is no bound, since 'page' is of type string",
        ),
        (
            "expect_column_mean_to_be_between: {column: n, min_value: nan, max_value: 3}",
            "min_value: got 'nan', allowed is a finite number",
        ),
        (
            "expect_table_row_count_to_be_between: {min_value: 0}",
            "min_value: got '0', allowed is a bound that can be missed, since the number is always at least 0",
        ),
        (
            "expect_column_proportion_of_unique_values_to_be_between: {column: page, max_value: 1.5}",
            "max_value: got '1.5', allowed is a bound that can be missed, since the number is always from 0 to 1",
        ),
        (
            "expect_column_values_to_be_in_set: {column: n, value_set: [1, few]}",
            "value_set: 'few' is no value of a column of type double",
        ),
        (
            "expect_column_values_to_be_in_set: {column: page, value_set: home}",
            "value_set: got 'home', allowed is a list, such as [a, b]",
        ),
        (
            "expect_compound_columns_to_be_unique: {column_list: page}",
            "column_list: got 'page', allowed is a list, such as [a, b]",
        ),
        (
            BETWEEN_N + "min_value: 1, strict_min: maybe}",
            "strict_min: got 'maybe', allowed is true or false",
        ),
        ("expect_table_row_count_to_equal: {value: many}", "value: got 'many', allowed is a number"),
        (
            "expect_column_values_to_match_regex_list: {column: page, regex_list: [a], match_on: some}",
            "match_on: got 'some', allowed is any or all",
        ),
        *(
            (declared, f'{name}: got "{got}" in quotes, which is text, allowed is {allowed} without quotes')
            for declared, name, got, allowed in (
                (BETWEEN_N + 'min_value: "1"}', "min_value", "1", "a number"),
                (BETWEEN_N + "min_value: 1, mostly: '0.5'}", "mostly", "0.5", "a number"),
                (BETWEEN_N + "min_value: 1, strict_min: 'yes'}", "strict_min", "yes", "true or false"),
                ("expect_column_mean_to_be_between: {column: n, max_value: '3'}", "max_value", "3", "a number"),
                ("expect_table_row_count_to_equal: {value: '3'}", "value", "3", "a number"),
                ("expect_column_values_to_be_in_set: {column: n, value_set: [1, '2']}", "value_set", "2", "a number"),
                (
                    "expect_column_pair_values_to_be_in_set: "
                    "{column_A: page, column_B: n, value_pairs_set: [[a, 1], [b, '2']]}",
                    *("value_pairs_set", "2", "a number"),
                ),
                (
                    "expect_column_quantile_values_to_be_between: "
                    "{column: n, quantile_ranges: {quantiles: [0.5], value_ranges: [[1, '2']]}}",
                    *("quantile_ranges", "2", "a number"),
                ),
            )
        ),
    ],
)
def test_a_bound_that_says_nothing_is_refused_with_its_line(
    validator: Validator, tmp_path: Path, declared: str, said: str
) -> None:
    files = {
        "hourline.yaml": "name: p\n",
        "sources/s.yaml": "topic: t\nfields: {page: string, at: timestamp}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\ndimensions: [page]\nmeasures: {n: count, newest: max(at)}\nexpectations:\n"
        f"  - {declared}\n",
    }
    project = load_project(write_project(tmp_path, files))
    kind = declared.partition(":")[0]
    assert find_mistakes_in(project, project.metrics["m"], validator) == [
        f"metrics/m.yaml:5: expectations.0: {kind}: {said}"
    ]


@pytest.mark.parametrize(
    "declared",
    [
        BETWEEN_N + "min_value: 0, mostly: 1}",
        "expect_column_max_to_be_between: {column: newest, max_value: 2030-01-01}",
        "expect_table_row_count_to_be_between: {min_value: 0, max_value: 9}",
        "expect_table_row_count_to_be_between: {min_value: 0, strict_min: true}",
        "expect_column_proportion_of_unique_values_to_be_between: {column: page, max_value: 0.5}",
        "expect_column_max_to_be_between: {column: newest, max_value: '2030-01-01'}",
        "expect_column_values_to_be_in_set: {column: page, value_set: ['1', 2, 'true']}",
        "expect_column_values_to_match_regex: {column: page, regex: '1'}",
        "expect_column_values_to_match_json_schema: {column: page, json_schema: {maximum: 3, const: '3'}}",
    ],
)
def test_a_bound_of_the_type_of_its_column_is_accepted(validator: Validator, tmp_path: Path, declared: str) -> None:
    files = {
        "hourline.yaml": "name: p\n",
        "sources/s.yaml": "topic: t\nfields: {page: string, at: timestamp}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\ndimensions: [page]\nmeasures: {n: count, newest: max(at)}\nexpectations:\n"
        f"  - {declared}\n",
    }
    project = load_project(write_project(tmp_path, files))
    assert find_mistakes_in(project, project.metrics["m"], validator) == []


def test_each_parameter_of_a_number_or_a_boolean_refuses_quotes() -> None:
    """Of all expectations. Bounds and the parts of mappings are refused by their columns."""
    tried = set()
    for kind in list_registered_expectation_implementations():
        fields = get_expectation_impl(kind).__fields__
        for name, field in fields.items():
            leaves = {field.outer_type_, *get_args(field.outer_type_)}
            wanted = [leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, int | float)]
            if not wanted or str in leaves or name in ("min_value", "max_value", *_SET_BY_HOURLINE):
                continue
            tried.add(name)
            bounds = {"min_value": 1} if "min_value" in fields else {}
            with pytest.raises(UnsuitableExpectationError, match=r"in quotes|needs an SQL database"):
                Check(kind, {**bounds, name: QuotedText("1")}).build({})
    assert {"mostly", "strict_min", "value", "threshold", "or_equal", "sum_total", "multiplier"} <= tried


def test_a_json_schema_has_numbers_and_booleans_where_yaml_has_them() -> None:
    of = {"properties": {"a": {"maximum": "3", "const": QuotedText("3")}}, "required": ["a"], "x": "true"}
    (check,) = build_checks([Expectation(type="e", parameters={"column": "page", "json_schema": of})])
    assert check.parameters["json_schema"] == {
        **{"properties": {"a": {"maximum": 3, "const": "3"}}, "required": ["a"], "x": True}
    }


def test_what_may_give_another_verdict_each_time_is_refused_with_its_line(validator: Validator, tmp_path: Path) -> None:
    of_metric = [
        (
            "column: n, max_value: 1, row_condition: 'n > @pd.Timestamp.now().hour'",
            "row_condition: got '@', which is not known",
        ),
        (
            "column: n, max_value: 1, row_condition: 'n > n.sample(1)'",
            "row_condition: got 'sample', which is not known",
        ),
    ]
    repeats = "column: n, max_value: 1, row_condition: 'page == \"@now()\" and (n > 1 or n in (2, 3))'"
    lines = [
        f"- expect_column_values_to_be_between: {{{parameters}}}\n"
        for parameters in (*(parameters for parameters, _ in of_metric), repeats)
    ]
    # Spark SQL is checked where Spark runs. Here it must only not be taken for a condition of pandas.
    of_events = "- expect_column_values_to_be_between: {column: n, max_value: 1, row_condition: \"page = 'a'\"}\n"
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": "topic: s\nfields: {page: string, at: string, n: int}\nevent_time: at\nexpectations:\n"
        + of_events,
        "metrics/m.yaml": "source: s\ndimensions: [page]\nmeasures: {n: count}\nexpectations:\n" + "".join(lines),
    }
    project = load_project(write_project(tmp_path, files))
    assert find_mistakes_in(project, project.sources["s"], validator) == []
    mistakes = find_mistakes_in(project, project.metrics["m"], validator)
    assert len(mistakes) == len(of_metric)
    for number, (mistake, (_, said)) in enumerate(zip(mistakes, of_metric, strict=True)):
        where = f"metrics/m.yaml:{number + 5}: expectations.{number}: expect_column_values_to_be_between: "
        assert mistake.startswith(where + said)
