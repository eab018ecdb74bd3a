"""The declaration that is being replaced goes on as it was, and changes nothing of the events."""

from typing import Any, cast

import pytest

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import EventTime, Field, Measure, Metric, Source
from speed_layer.streams import open_source

METRIC = Metric(name="sales", source="orders", dimensions={}, measures={"net": Measure(kind="sum", argument="net")})


def source(fields: list[str], derived: dict[str, str]) -> Source:
    return Source(
        name="orders",
        topic="orders",
        fields={"at": Field(type="timestamp"), **{name: Field(type="double") for name in fields}},
        event_time=EventTime(expression="at"),
        derived=derived,
    )


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is the source that the metric is planned over."""
    monkeypatch.setattr(open_source, "plan_aggregation", lambda spark, over, metric: over)


def follow(now: Source, before: Source) -> Source | None:
    older = MetricTables(before, METRIC, provisional=1, complete_from=1)
    return cast("Source | None", open_source._plan_as_before(cast(Any, None), now, older))


def test_a_field_with_the_name_of_an_older_derived_field_stays_what_it_is() -> None:
    before = source(["net"], {"gross": "net * 1.2", "half": "net / 2"})
    followed = follow(source(["net", "Gross"], {}), before)
    assert followed is not None
    assert followed.derived == {"half": "net / 2"}, "the archive would have the derived value in place of the field"


def test_a_metric_over_a_derived_field_that_became_a_field_is_not_followed() -> None:
    assert follow(source(["net"], {}), source(["gross"], {"net": "gross / 1.2"})) is None
