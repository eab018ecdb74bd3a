"""What tasks cannot compute of the inputs of a join, without Spark."""

from pathlib import Path

import pytest

from hourline_core.compute.derived_inputs import find_unfit_inputs
from hourline_core.model import load_project
from tests.support.project_files import write_project

ORDERS = """\
topic: orders
fields: {number: long, email: string, tags: array<string>, at: timestamp, amount: double, order: long}
event_time: at
derived: {name: trim(email), tag: "element_at(tags, 1)", half: amount / 2}
"""
ALLOWED = "allowed are in a key declared and derived fields of source 'orders', and functions of them that DuckDB"
CONSTANT = "got '{}', which names no field, so all events have the same key; allowed are fields of the source"
MISSPELT = "got '{}', in which '{}' is no field of source 'orders'"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("{email: name}", []),
        ("{name: trim(email)}", []),
        ("order", []),
        ("{number: cast(number AS bigint)}", []),
        ("{name: email, number: number + 1}", []),
        ("{tag: email}", [(("on", "tag"), f"got 'tag', {ALLOWED}")]),
        ("{email: md5(email)}", [(("on", "email"), f"got 'md5(email)', {ALLOWED}")]),
        (
            "{name: number}",
            [
                (
                    ("on", "name"),
                    "got 'name' of source 'orders', which is of type string, and 'number' of source 'orders', which is of "
                    "type long; allowed are fields of the same type",
                )
            ],
        ),
        ("{half: half}", [(("on", "half"), "got fields of type double, allowed are string, int, long, boolean, date")]),
        (
            "{cast(numbr AS string): email}",
            [
                (
                    ("on", "cast(numbr AS string)"),
                    f"{MISSPELT.format('cast(numbr AS string)', 'numbr')} — did you mean 'number'?",
                )
            ],
        ),
        (
            "trim(Emial)",
            [(("on", "trim(Emial)"), f"{MISSPELT.format('trim(Emial)', 'Emial')} — did you mean 'email'?")],
        ),
        (
            "trim(zone.city)",
            [
                (
                    ("on", "trim(zone.city)"),
                    f"{MISSPELT.format('trim(zone.city)', 'zone')} (there is: amount, at, email, half, name, number, "
                    "order, tag, tags)",
                )
            ],
        ),
        # Names that are known, of what no key may have.
        ("md5(record.key)", [(("on", "md5(record.key)"), f"got 'md5(record.key)', {ALLOWED}")]),
        ("md5(Event_Time)", [(("on", "md5(Event_Time)"), f"got 'md5(Event_Time)', {ALLOWED}")]),
        ('{"1": "1"}', [(("on", "1"), CONSTANT.format("1"))]),
        ("{email: \"'a'\"}", [(("on", "email"), CONSTANT.format("'a'"))]),
        (
            "{number: number, cast(1 + 1 AS string): email}",
            [(("on", "cast(1 + 1 AS string)"), CONSTANT.format("cast(1 + 1 AS string)"))],
        ),
        ("uuid()", [(("on", "uuid()"), CONSTANT.format("uuid()"))]),
        ("cast(event_time AS date)", []),
        # Both sides are one source, and have one mistake.
        ("md5(email)", [(("on", "md5(email)"), f"got 'md5(email)', {ALLOWED}")]),
        ("{emails(email): email}", [(("on", "emails(email)"), f"got 'emails(email)', {ALLOWED}")]),
    ],
)
def test_a_key_is_refused_that_duckdb_does_not_compute_or_compare(
    tmp_path: Path, key: str, told: list[tuple[tuple[str, ...], str]]
) -> None:
    joined = f"join: {{left: orders, right: {{source: orders, as: next}}, on: {key}, within: 1h}}\n"
    files = {"hourline.yaml": "", "sources/orders.yaml": ORDERS, "sources/pairs.yaml": joined}
    found = list(find_unfit_inputs(load_project(write_project(tmp_path, files)).sources["pairs"]))
    assert [place for place, _ in found] == [place for place, _ in told]
    assert all(sentence.startswith(start) for (_, sentence), (_, start) in zip(found, told, strict=True))


@pytest.mark.parametrize("on", ["{tag: email}", "{trim(tag): email}", "{named: email}"])
def test_an_element_of_an_array_is_in_a_key_an_id_and_a_condition(tmp_path: Path, on: str) -> None:
    joined = f"join: {{left: orders, right: {{source: orders, as: next}}, on: {on}, within: 1h}}\n"
    orders = ORDERS.replace('tag: "element_at(tags, 1)"', "named: \"concat(email, '/', tag)\"")
    files = {
        "hourline.yaml": "",
        "sources/orders.yaml": orders + "explode: {tag: tags}\nid: concat(number, tag)\nwhere: tag <> ''\n",
        "sources/pairs.yaml": joined,
    }
    assert not list(find_unfit_inputs(load_project(write_project(tmp_path, files)).sources["pairs"]))


@pytest.mark.parametrize("setting", ["id: md5(email)", "where: _hourline_topic = 'a'", "where: _hourline_place = 0"])
def test_an_input_that_is_both_sides_is_told_once(tmp_path: Path, setting: str) -> None:
    joined = "join: {left: orders, right: {source: orders, as: next}, on: email, within: 1h}\n"
    orders = ORDERS + f"{setting}\n"
    files = {"hourline.yaml": "", "sources/orders.yaml": orders, "sources/pairs.yaml": joined}
    found = list(find_unfit_inputs(load_project(write_project(tmp_path, files)).sources["pairs"]))
    assert [place for place, _ in found] == [("left",)]


@pytest.mark.parametrize("key", ["email", "md5(email)"])
def test_an_input_that_needs_a_lookup_is_refused_whoever_evaluates_its_key(tmp_path: Path, key: str) -> None:
    joined = "join: {left: orders, right: {source: orders, as: next}, on: email, within: 1h}\n"
    files = {
        "hourline.yaml": "",
        "lookups/person.yaml": "table: people.csv\nkey: email\ncolumns: {email: string, age: int}\n",
        "sources/orders.yaml": ORDERS + f"lookups: {{person: {key}}}\nwhere: person.age > 17\n",
        "sources/pairs.yaml": joined,
    }
    found = list(find_unfit_inputs(load_project(write_project(tmp_path, files)).sources["pairs"]))
    assert [place for place, _ in found] == [("left",)]
    assert found[0][1].startswith("source 'orders' has `where: person.age > 17`, allowed are")
