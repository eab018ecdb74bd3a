"""The audit warns of a group whose value is null because it has more events than its keyed fold keeps."""

import json
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

from batch_layer.audit.fold_bounds import validate_folds
from batch_layer.audit.validator import Validator
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Measure, Metric, UserMeasure
from hourline_core.model.hours import hour_text
from hourline_core.sql.user_functions import install_functions
from tests.support.user_classes import KEPT_EVENT, UNTIL_THIRD, keyed_fold

HOUR = datetime(2026, 3, 1, 12, tzinfo=UTC)
# It gives null on purpose once it is done: when an x is negative.
UNTIL_NEGATIVE = UNTIL_THIRD.replace("[*state, at]", "[*state, x]").replace("len(state) == 3\n\n", "state[-1] < 0\n\n")
UNTIL_NEGATIVE = UNTIL_NEGATIVE.replace("(state[2] - state[0]).total_seconds() if len(state) == 3 else None", "None")
OWN = UserMeasure(kind="fold", name="until_third", code=UNTIL_NEGATIVE)
METRIC = Metric(
    name="steps",
    source="s",
    dimensions={"who": "who"},
    measures={
        "trail": keyed_fold("trail", "x"),
        "never": Measure(kind="fold", argument="x", user_measure=OWN),
    },
)
MOST = {"trail": 5, "never": 4}
TILES = pa.schema(
    {
        "hour": TIMESTAMP,
        "who": pa.string(),
        **{f"{name}{part}": of for name in MOST for part, of in (("", pa.list_(KEPT_EVENT)), ("__n", pa.int64()))},
    }
)


def tile(who: str, first: int, *values: int) -> dict[str, object]:
    """A tile with an event for each of ``values``. The first one is in the second ``first`` of the hour."""
    events = [
        {"at": HOUR + timedelta(seconds=n), "partition": 0, "offset": n, "place": 0, "topic": "t", "_0": x}
        for n, x in enumerate(values, first)
    ]
    row: dict[str, object] = {"hour": HOUR, "who": who}
    for name, most in MOST.items():
        row |= {name: events[:most], f"{name}__n": len(events)}
    return row


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ((1, 2, 3, 4), []),
        ((1, 2, 3, 4, 5), ["never"]),
        ((1, 2, 3, 4, 5, 6), ["trail", "never"]),
        ((1, 2, 3, 4, -5, 6), ["trail", "never"]),  # It is not done by the events that are kept.
        ((1, 2, 3, -4, 5, 6), ["trail"]),
        ((1, -2, 3, 4, 5), []),
    ],
)
def test_a_value_that_lacks_events_is_warned_of_and_one_that_is_null_on_purpose_is_not(
    values: tuple[int, ...], warned: list[str]
) -> None:
    connection = duckdb.connect()
    install_functions(connection, [METRIC])
    # One part of the group comes late.
    tiles = pa.Table.from_pylist([tile("ada", 2, *values[2:]), tile("ada", 0, *values[:2]), tile("bo", 0, 1)], TILES)
    findings = validate_folds(Validator(), connection, METRIC, [HOUR], tiles).findings
    told = {finding.check.parameters["column"]: finding for finding in findings}
    names = {name: f"events of {name} beyond {most}" for name, most in MOST.items()}
    assert list(told) == list(names.values())
    assert {name for name in MOST if not told[names[name]].success} == set(warned)
    for name in warned:
        (row,) = map(json.loads, told[names[name]].rows)
        assert row == {"hour": hour_text(HOUR), "who": "ada", names[name]: len(values) - MOST[name]}
