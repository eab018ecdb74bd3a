"""A mistake in the name or the dimensions of a metric says which names are taken, and why."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import LOWER, METRIC, mistakes


@pytest.mark.parametrize(
    ("dimensions", "said"),
    [
        ("a", "dimensions: got 'a', allowed is a list or a mapping, such as [a]"),
        ("[a, a]", "dimensions.1: got 'a' again, allowed is each dimension once"),
        (
            "[tailNum]",
            "dimensions.0: got 'tailNum', allowed are field names in lower case and `name: expression`: give it a name, as in `a_name: tailNum`",
        ),
        (
            "[state]",
            "dimensions.0: got 'state', which Hourline uses itself: give it another name, as in `a_name: state`",
        ),
        ("[hour]", "dimensions.0: got 'hour', which each result has anyway: leave it out"),
        (
            "{hour: a}",
            "dimensions.hour: got the name 'hour', which Hourline uses itself: choose another than hour, layer, sequence, "
            "state; each result has its hour anyway",
        ),
        ("[[a]]", "dimensions.0: got a list, allowed are field names in lower case and `name: expression`"),
        ("[n]", "dimensions: got the name 'n', allowed is each name once"),
        ("{Big: a}", f"dimensions.Big: got the name 'Big', {LOWER}"),
        ("[{a__b: a}]", "dimensions.a__b: got the name 'a__b', allowed is one _ at a time"),
        (
            "{state: a}",
            "dimensions.state: got the name 'state', which Hourline uses itself: choose another than hour, layer, sequence, state",
        ),
        ("{d: ''}", "dimensions.d: got nothing, allowed is a Spark SQL expression"),
        ("{d: }", "dimensions.d: got nothing, allowed is text"),
    ],
)
def test_dimensions(tmp_path: Path, dimensions: str, said: str) -> None:
    (found,) = mistakes(tmp_path, {"metrics/m.yaml": f"source: s\ndimensions: {dimensions}\nmeasures: {{n: count}}\n"})
    line = 3 if dimensions == "[n]" else 2
    said = said.replace("dimensions: got the name 'n'", "measures.n: got the name 'n'")
    assert found.startswith(f"metrics/m.yaml:{line}: {said}")


@pytest.mark.parametrize(
    "name", ["hours", "publications", "events_x", "x_final", "x_provisional", "x_staged", "x_states"]
)
def test_metric_names_that_hourline_uses(tmp_path: Path, name: str) -> None:
    (found,) = mistakes(tmp_path, {f"metrics/{name}.yaml": METRIC})
    assert found.startswith(
        f"metrics/{name}.yaml:1: name: got the name '{name}', which Hourline uses itself: choose another than changes, drift, "
    )
