"""What identifies a metric: the hash of what its numbers depend on, and what is stored with its tables."""

import json
from datetime import timedelta
from typing import Any

from hourline_core.model import EventTime, Field, Lookup, Metric, Volume, declaration_hash, from_stored, to_stored
from hourline_core.model.source_lookup import SourceLookup
from tests.support.flights import delays_metric, flights_source


def test_the_hash_tells_what_changes_numbers() -> None:
    known = declaration_hash(flights_source(), delays_metric())
    assert known == "40931491212c"

    def changed(source: dict[str, Any] | None = None, metric: dict[str, Any] | None = None) -> str:
        return declaration_hash(flights_source(**(source or {})), delays_metric(**(metric or {})))

    fields = flights_source().fields
    same = [
        changed(source={"topic": "t2", "grace": timedelta(0), "clock": "wall", "ahead": timedelta(0), "partitions": 3}),
        changed(source={"volume": Volume(min=100)}),
        changed(source={"description": "Departures"}),
        changed(source={"fields": dict(reversed(fields.items()))}),
        changed(source={"fields": {**fields, "more": "string"}}),
        changed(source={"derived": {"unused": "delay"}}),
        changed(source={"event_time": EventTime(expression="seen", encoding="epoch_seconds")}),
        changed(source={"fields": {**fields, "origin": {"type": "string", "required": True}}}),
        changed(metric={"name": "other", "description": "words"}),
        changed(metric={"dimensions": {"late": " delay > 15", "origin": "origin"}}),
        changed(metric={"measures": {"mean_delay": "mean(coalesce(delay, 0))", "n": "count"}}),
        changed(metric={"measures": {**delays_metric().measures, "of_each": "ratio(mean_delay, n)"}}),
    ]
    assert set(same) == {known}
    different = [
        changed(source={"name": "f2"}, metric={"source": "f2"}),
        changed(source={"fields": {**fields, "origin": "date"}}),
        changed(source={"id": "origin"}),
        changed(source={"derived": {"x": "delay"}, "where": "x > 0"}),
        changed(source={"derived": {"x": "delay + 1"}, "where": "x > 0"}),
        changed(source={"derived": {"y": "delay", "x": "y + 1"}, "where": "x > 0"}),
        changed(source={"where": "delay > 0"}),
        changed(metric={"where": "delay > 0"}),
        changed(metric={"dimensions": {"late": "delay > 16", "origin": "origin"}}),
        changed(metric={"measures": {"n": "count"}}),
        changed(metric={"measures": {"n": "count", "mean_delay": "mean(delay)"}}),
        changed(metric={"measures": {"n": "count where late", "mean_delay": "mean(coalesce(delay, 0))"}}),
    ]
    assert len({known, *different}) == len(different) + 1


def test_the_hash_tells_the_element_but_not_how_it_is_made() -> None:
    """Archived events have their element, as they have their event time."""
    fields = {"line": Field(type="string"), "seen": Field(type="timestamp")}
    words = delays_metric(dimensions={"word": "word"}, measures={"n": "count"})
    total = delays_metric(dimensions={}, measures={"n": "count"})

    def known(metric: Metric, **changed: Any) -> str:
        return declaration_hash(flights_source(fields=fields, **changed), metric)

    assert known(total) == known(total, explode={"word": "split(line, ' ')"})
    assert known(words, explode={"word": "split(line, ' ')"}) == known(words, explode={"word": "split(line, ',')"})
    assert known(words, explode={"word": "split(line, ' ')"}) != known(words, explode={"part": "split(line, ' ')"})


def test_what_is_stored_with_a_table_gives_back_the_same_declaration() -> None:
    source = flights_source(explode={"item": "array(origin)"}, derived={"x": "item"})
    metric = delays_metric(dimensions={"x": "x"})
    now = flights_source(explode={"other": "array(delay)"})
    stored_source, stored_metric = from_stored(to_stored(source, metric), now, metric.window)
    assert declaration_hash(stored_source, stored_metric) == declaration_hash(source, metric)
    assert stored_source.event_fields == ("delay", "seen", "item")
    older = json.loads(to_stored(flights_source(), metric))
    del older["source"]["explode"]  # as an earlier Hourline 0.2 wrote it
    assert from_stored(json.dumps(older), now, metric.window)[0].explode == {}


def test_the_hash_tells_what_decides_on_the_rows_of_a_lookup() -> None:
    columns = {"tail": "string", "maker": "string", "seats": "int", "since": "timestamp"}
    plane = Lookup.model_validate({"name": "plane", "table": "planes.csv", "key": "tail", "columns": columns})
    metric = delays_metric(dimensions={"maker": "plane.maker"}, measures={"flights": "count"})

    def known(key: str = "origin", named: Metric = metric, **changed: Any) -> str:
        declared = {**plane.model_dump(), **changed}
        lookups = {"plane": SourceLookup(key=(key,)), "unused": SourceLookup(lookup="plane", key=("dest",))}
        source = flights_source(lookups=lookups).bind_lookups({"plane": Lookup.model_validate(declared)})
        assert from_stored(to_stored(source, named), source, named.window) == (source, named)
        return declaration_hash(source, named)

    same = known()
    assert known(table="s3://planes", refresh="1h", most_rows=7) == same
    assert known(columns={**columns, "seats": "long", "model": "string"}) == same, "the metric names none of them"
    assert known(key="substring(origin, 1)") != same
    assert known(valid_from="since") != same
    assert known(columns={**columns, "maker": "long"}) != same
    assert known(named=delays_metric(measures={"flights": "count"})) == declaration_hash(
        flights_source(), delays_metric(measures={"flights": "count"})
    )
