"""A trial or a suggestion that cannot be made gets one sentence."""

from pathlib import Path

import pytest

from tests.support.command_line import Failing

HOURS = ["--from", "2024-05-06T20", "--to", "2024-05-06T22"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "flwo", *HOURS], "there is no source or metric 'flwo' — did you mean 'flow'?"),
        (["audit", "flow", "--from", "2024-05-06T20", "--to", "2024-05-06T20"], "contains no hour"),
        (["audit", "flow", *HOURS, "--expectations", "no.yaml"], "there is no file no.yaml: give one with a list of"),
        (
            ["audit", "flow", *HOURS],
            "metric 'flow' has no published hours, as it is declared now: `hourline recompute`",
        ),
        (["audit", "scans", *HOURS], "source 'scans' has no closed hours: `hourline status` shows what has arrived"),
        (["expectations", "suggest", "source:flow"], "'flow' is a metric, not a source"),
        (["expectations", "suggest", "flow"], "metric 'flow' has no published hours, as it is declared now"),
        (["expectations", "suggest", "scans"], "source 'scans' has no closed hours"),
    ],
)
def test_what_cannot_be_tried_gets_one_sentence(
    failing: Failing, declared: Path, arguments: list[str], said: str
) -> None:
    assert said in failing.sentence(*arguments, folder=declared)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "expectations:\n  - expect_column_values_to_be_betwen: {column: scans}\n",
            "tried.yaml:2: expectations.0: Great Expectations has no 'expect_column_values_to_be_betwen' — did you mean "
            "'expect_column_values_to_be_between'?",
        ),
        (
            "history: off\nexpectations:\n  - expect_column_to_exist: {column: scan}\n",
            "tried.yaml:3: expectations.0: there is no column 'scan' — did you mean 'scans'?",
        ),
        ("volume: {min: 1}\n", "tried.yaml:1: volume: is not a known key (there is: expectations, history)"),
        (
            'expectations:\n  - expect_column_to_exist: {column: scans}\n    when: "row > 3"\n',
            "tried.yaml:3: expectations.0.when: got 'row > 3': an hour has no 'row' — did you mean 'rows'?",
        ),
        (
            "expectations:\n  - expect_column_to_exist: {column: scans}\n    about: window\n",
            "tried.yaml:3: expectations.0.about: got 'window', allowed is hour: the windows of this metric are hours",
        ),
        ("- expect_column_to_exist: {column: scans}\n", "tried.yaml:1: got a list, allowed is a mapping, `key: value`"),
        ("# nothing\n", "tried.yaml:1: got nothing, allowed are the keys expectations, history"),
    ],
)
def test_a_mistake_in_the_file_to_try_is_told_with_its_line(
    failing: Failing, declared: Path, text: str, said: str
) -> None:
    (declared / "tried.yaml").write_text(text)
    arguments = ["audit", "flow", *HOURS, "--expectations", "tried.yaml"]
    assert failing.sentence(*arguments, folder=declared, status=1) == said
