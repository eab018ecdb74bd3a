"""Sources that are joined of two others: their fields, and the declarations that cannot be."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import Project, load_project
from hourline_core.model.decoding import decoding_of, find_other_derivation
from hourline_core.model.topology_text import topology_mermaid, topology_text
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "",
    "sources/order.yaml": """\
        topic: orders
        fields: {order_id: {type: long, required: true}, amount: "decimal(10,2)", at: timestamp, customer: string}
        event_time: at
        id: order_id
        """,
    "sources/payment.yaml": """\
        topic: payments
        fields: {of_order: long, order_id: string, paid: double, at: timestamp}
        event_time: at
        """,
    "sources/paid.yaml": """\
        join:
          left: order
          right: payment
          on: {order_id: of_order}
          within: {before: 10m, after: 1h}
        """,
    "metrics/paid_orders.yaml": "source: paid\nmeasures: {pairs: count, amount: sum(order_amount)}\n",
}


def declared(folder: Path, **files: str) -> Project:
    """The project with other files: ``paid="…"`` for sources/paid.yaml."""
    changed = {f"sources/{name}.yaml": text for name, text in files.items()}
    return load_project(write_project(folder, {**FILES, **changed}))


def test_a_joined_source_has_the_fields_of_both_and_the_later_time(tmp_path: Path) -> None:
    paid = declared(tmp_path).sources["paid"]
    assert {name: (field.type, field.required) for name, field in paid.fields.items()} == {
        "order_event_time": ("timestamp", True),
        "payment_event_time": ("timestamp", True),
        "order_order_id": ("long", True),
        "order_amount": ("decimal(10,2)", False),
        "order_at": ("timestamp", False),
        "order_customer": ("string", False),
        "payment_of_order": ("long", False),
        "payment_order_id": ("string", False),
        "payment_paid": ("double", False),
        "payment_at": ("timestamp", False),
    }
    assert paid.event_time.expression == "greatest(order_event_time, payment_event_time)"
    assert paid.join is not None
    assert paid.join.within.before == timedelta(minutes=10)
    assert paid.join.within.after == timedelta(hours=1)
    assert not paid.raw


def test_a_join_of_a_joined_source_has_the_fields_of_all_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    also = "join: {left: paid, right: order, on: {payment_of_order: order_id}, within: 1h}\n"
    sources = declared(tmp_path, again=also).sources
    assert "paid_payment_paid" in sources["again"].fields
    assert list(sources).index("paid") < list(sources).index("again")


SELF = "join: {left: order, right: {source: order, as: next}, on: customer, within: {after: 30m}}\n"


def test_a_source_that_is_joined_with_itself_has_its_fields_under_both_names(tmp_path: Path) -> None:
    paid = declared(tmp_path, paid=SELF).sources["paid"]
    assert {name: (field.type, field.required) for name, field in paid.fields.items()} == {
        "order_event_time": ("timestamp", True),
        "next_event_time": ("timestamp", True),
        "order_order_id": ("long", True),
        "order_amount": ("decimal(10,2)", False),
        "order_at": ("timestamp", False),
        "order_customer": ("string", False),
        "next_order_id": ("long", True),
        "next_amount": ("decimal(10,2)", False),
        "next_at": ("timestamp", False),
        "next_customer": ("string", False),
    }
    assert paid.event_time.expression == "greatest(order_event_time, next_event_time)"
    assert [source.name for source in paid.inputs] == ["order", "order"]
    assert paid.join is not None
    assert paid.join.inputs == ("order",)


def test_two_sources_may_be_joined_under_other_names(tmp_path: Path) -> None:
    text = (
        "join: {left: {source: order, as: o}, right: {source: payment, as: p}, on: {order_id: of_order}, within: 1h}\n"
    )
    paid = declared(tmp_path, paid=text).sources["paid"]
    assert {"o_event_time", "o_amount", "p_event_time", "p_paid"} < set(paid.fields)
    assert not any(name.startswith(("order", "payment")) for name in paid.fields)


def test_a_side_that_is_called_as_its_source_is_declared_as_by_its_short_form(tmp_path: Path) -> None:
    short = decoding_of(declared(tmp_path / "short").sources["paid"])
    full = FILES["sources/paid.yaml"].replace("left: order", "left: {source: order, as: order}")
    assert decoding_of(declared(tmp_path / "full", paid=full).sources["paid"]) == short
    assert short.declared["join"]["left"] == "order"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"paid": SELF.replace("next", "later")}, ["join"]),
        ({"paid": SELF.replace("left: order", "left: {source: order, as: first}")}, ["join"]),
        ({"order": FILES["sources/order.yaml"].replace("customer: string", "customer: long")}, ["fields"]),
        ({"order": FILES["sources/order.yaml"].replace('"decimal(10,2)"', "long")}, []),
    ],
)
def test_what_decides_about_pairs_of_one_source_is_told(
    tmp_path: Path, changed: dict[str, str], found: list[str]
) -> None:
    before = decoding_of(declared(tmp_path / "before", paid=SELF).sources["paid"])
    now = decoding_of(declared(tmp_path / "now", **{"paid": SELF, **changed}).sources["paid"])
    assert [text.removesuffix(" of source 'order'") for text in find_other_derivation(before, now)] == found


def test_a_key_of_the_left_side_alone_decides_about_pairs_of_one_source(tmp_path: Path) -> None:
    paid = SELF.replace("on: customer", "on: {customer: note}")
    order = FILES["sources/order.yaml"].replace("customer: string", "customer: string, note: string")
    before = decoding_of(declared(tmp_path / "before", paid=paid, order=order).sources["paid"])
    other = order.replace("customer: string", "customer: {type: string, key: by}")
    now = decoding_of(declared(tmp_path / "now", paid=paid, order=other).sources["paid"])
    assert find_other_derivation(before, now) == ["fields of source 'order'"]


@pytest.mark.parametrize(
    ("paid", "said"),
    [
        (
            "join: {left: orders, right: payment, on: order_id, within: 1h}",
            "sources/paid.yaml:1: join.left: got 'orders', which is no source of this project — did you mean 'order'?",
        ),
        (
            "join: {left: order, right: payment, on: order_id, within: 1h}",
            "sources/paid.yaml:1: join.on.order_id: got 'order_id' of source 'order', which is of type long, and 'order_id' "
            "of source 'payment', which is of type string; allowed are fields of the same type",
        ),
        (
            "join: {left: order, right: payment, on: {amount: of_order}, within: 1h}",
            "which is of type decimal(10,2), and 'of_order' of source 'payment', which is of type long",
        ),
        (
            "join: {left: order, right: payment, on: {order_id: oforder}, within: 1h}",
            "join.on.order_id: got 'oforder', which is no field of source 'payment' — did you mean 'of_order'?",
        ),
        ("join: {left: order, right: payment, on: {order_id: of_order}}", "join.within: is missing"),
        (
            "join: {left: order, right: payment, on: {order_id: of_order}, within: {}}",
            "join.within: got no bound, allowed are `before`, `after` or both",
        ),
        ("join: {left: order, right: payment, on: {}, within: 1h}", "join.on: got nothing, allowed is at least one"),
        (
            "join: {left: order, right: order, on: order_id, within: 1h}",
            "join.right: got 'order' twice, allowed are two names: call one side otherwise, such as "
            "`right: {source: order, as: next}`",
        ),
        (
            "join: {left: order, right: {source: payment, as: order}, on: {order_id: of_order}, within: 1h}",
            "join.right: got 'order' twice, allowed are two names",
        ),
        (
            "join: {left: order, right: {source: order, as: payment}, on: order_id, within: 1h}",
            "sources/paid.yaml:1: join.right: got the name 'payment' for 'order', which is that of another source of "
            "this project; allowed is a name that no source has",
        ),
        (
            "join: {left: {source: order, as: Next}, right: order, on: order_id, within: 1h}",
            "sources/paid.yaml:1: join.left.as: got the name 'Next', allowed are lower-case letters",
        ),
        (
            "join: {left: {source: order, at: next}, right: order, on: order_id, within: 1h}",
            "join.left.at: is not a known key",
        ),
        (
            "join: {left: [order], right: order, on: order_id, within: 1h}",
            "join.left: got a list, allowed is the name of a source, or {source: …, as: …}",
        ),
        (
            "join: {left: order, right: {source: order, as: next}, on: order_id, within: 1h}\n"
            "derived: {next_amount: '1'}",
            "'next_amount' of 'paid' itself and field 'amount' of 'next' would both be 'next_amount'; allowed is each",
        ),
        (
            "join: {left: {source: order, as: one}, right: {source: order, as: other}, on: order_ids, within: 1h}",
            "join.on.order_ids: got 'order_ids', which is no field of source 'order' — did you mean 'order_id'?",
        ),
        (
            "join: {left: order, right: payment, on: {order_id: of_order}, within: 1h, kind: left}",
            "join.kind: is not a known key",
        ),
        (
            "join: {left: order, right: payment, on: {order_id: of_order}, within: 1h, type: right}",
            "join.type: got 'right', allowed",
        ),
        (
            "topic: paid\njoin: {left: order, right: payment, on: {order_id: of_order}, within: 1h}",
            "sources/paid.yaml:1: topic: got it beside `join`, whose events are made of those of its inputs: leave topic out",
        ),
        (
            "join: {left: order, right: payment, on: {order_id: of_order}, within: 1h}\nevent_time: order_at",
            "sources/paid.yaml:2: event_time: got it beside `join`",
        ),
        (
            "join: {left: order, right: payment, on: {order_id: of_order}, within: 1h}\nderived: {order_amount: '1'}",
            "'order_amount' of 'paid' itself and field 'amount' of 'order' would both be 'order_amount'; allowed is each name",
        ),
        (
            "fields: {a: string}\nevent_time: a",
            "topic: is missing: allowed is the name of a Kafka topic, `files` or a `delta` table, a `join` of two",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, paid: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, paid=paid + "\n")
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("kind", ["string", "int", "long", "boolean", "date", "timestamp"])
def test_a_key_may_be_of_a_type_whose_values_each_engine_compares_alike(tmp_path: Path, kind: str) -> None:
    assert "paid" in declared(tmp_path, **joined_by(kind)).sources


@pytest.mark.parametrize("kind", ["double", "float", "decimal(10,2)", "json", "array<string>", "map<string, long>"])
def test_a_key_of_another_type_is_refused(tmp_path: Path, kind: str) -> None:
    allowed = "allowed are string, int, long, boolean, date, timestamp"
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, **joined_by(kind))
    assert f"join.on.order_id: got fields of type {kind}, {allowed}" in str(refused.value)


def joined_by(kind: str) -> dict[str, str]:
    """A source that is joined with itself by a field of this type."""
    order = f'topic: orders\nfields: {{order_id: "{kind}", at: timestamp}}\nevent_time: at\n'
    paid = "join: {left: order, right: {source: order, as: next}, on: order_id, within: 1h}\n"
    return {"order": order, "paid": paid}


def test_a_key_may_be_a_derived_field_or_an_expression(tmp_path: Path) -> None:
    payment = dedent(FILES["sources/payment.yaml"]) + "derived: {id: cast(order_id AS bigint)}\n"
    for number, key in enumerate(("{order_id: id}", "{trim(customer): trim(order_id)}", "{cast(amount AS int): id}")):
        paid = FILES["sources/paid.yaml"].replace("{order_id: of_order}", key)
        assert "paid" in declared(tmp_path / str(number), paid=paid, payment=payment).sources
    paid = FILES["sources/paid.yaml"].replace("{order_id: of_order}", "{order_id: ids}")
    with pytest.raises(DeclarationError, match="got 'ids', which is no field of source 'payment' — did you mean 'id'"):
        declared(tmp_path / "other", paid=paid, payment=payment)


def test_what_a_key_is_computed_of_decides_about_pairs(tmp_path: Path) -> None:
    paid = FILES["sources/paid.yaml"].replace("{order_id: of_order}", "{order_id: id}")
    payment = dedent(FILES["sources/payment.yaml"]) + "derived: {id: of_order + 1}\n"
    before = decoding_of(declared(tmp_path / "before", paid=paid, payment=payment).sources["paid"])
    for number, (old, new, found) in enumerate(
        [
            ("of_order + 1", "of_order + 2", ["derived of source 'payment'"]),
            ("of_order: long", "of_order: int", ["fields of source 'payment'"]),
            ("paid: double", "paid: float", []),
        ]
    ):
        changed = declared(tmp_path / str(number), paid=paid, payment=payment.replace(old, new))
        assert find_other_derivation(before, decoding_of(changed.sources["paid"])) == found


LEFT = "join: {left: order, right: payment, on: {order_id: of_order}, within: {before: 10m, after: 1h}, type: left}\n"


def test_fields_that_an_event_without_a_partner_lacks_may_be_null(tmp_path: Path) -> None:
    required = FILES["sources/payment.yaml"].replace("of_order: long", "of_order: {type: long, required: true}")
    left = declared(tmp_path / "left", paid=LEFT, payment=required).sources["paid"]
    assert set(left.required_fields) == {"order_event_time", "order_order_id"}
    assert (left.id, left.fields["unmatched"].type) == ("unmatched", "string")
    assert left.join is not None
    assert left.join.longest_wait == timedelta(hours=1)
    full = declared(tmp_path / "full", paid=LEFT.replace("left}", "full}"), payment=required).sources["paid"]
    assert full.required_fields == ()
    inner = declared(tmp_path / "inner", paid=LEFT.replace("left}", "inner}")).sources["paid"]
    assert "unmatched" not in inner.fields
    assert inner.join is not None
    assert inner.join.longest_wait == timedelta(0)


@pytest.mark.parametrize(
    ("type", "side", "time", "wait", "reaches"),
    [
        ("inner", None, "greatest(order_event_time, payment_event_time)", 0, (60, 10)),
        ("inner", "order", "coalesce(order_event_time, greatest(order_event_time, payment_event_time))", 60, (0, 0)),
        (
            "inner",
            "payment",
            "coalesce(payment_event_time, greatest(order_event_time, payment_event_time))",
            10,
            (50, 0),
        ),
        ("left", None, "greatest(order_event_time, payment_event_time)", 60, (0, 10)),
        (
            "left",
            "payment",
            "coalesce(payment_event_time, greatest(order_event_time, payment_event_time))",
            60,
            (0, 10),
        ),
        (
            "full",
            "payment",
            "coalesce(payment_event_time, greatest(order_event_time, payment_event_time))",
            60,
            (60, 10),
        ),
    ],
)
def test_a_pair_may_have_the_event_time_of_a_side_for_which_the_clock_waits(
    tmp_path: Path, type: str, side: str | None, time: str, wait: int, reaches: tuple[int, int]
) -> None:
    text = LEFT.replace("type: left", f"type: {type}" + (f", event_time: {side}" if side else ""))
    paid = declared(tmp_path, paid=text).sources["paid"]
    assert paid.join is not None
    assert paid.event_time.expression == time
    assert paid.join.longest_wait == timedelta(minutes=wait)
    assert paid.join.reaches == tuple(timedelta(minutes=one) for one in reaches)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ", event_time: paid}",
            "event_time: got 'paid', allowed is the name of a side, 'order' or 'payment', or to leave it out",
        ),
        (
            ", event_time: order}\nclock: wall",
            "clock: got wall beside the event_time of a join, whose hours wait for partners: leave it out",
        ),
    ],
)
def test_what_a_join_with_the_event_time_of_a_side_cannot_have_is_refused(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, paid=LEFT.replace(", type: left}", more))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "id: order_order_id",
            "id: got it beside a left join, whose events that may be taken back have an id of their own",
        ),
        (
            "idle: 15m",
            "idle: got it beside a left join, which waits for the clock of each input: declare idle there",
        ),
        ("clock: wall", "clock: got wall beside a left join, whose hours wait for partners: leave it out"),
        ("derived: {unmatched: '1'}", "'unmatched' of 'paid' itself is the name of a field"),
    ],
)
def test_what_a_left_join_cannot_have_is_refused(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, paid=f"{LEFT}{more}\n")
    assert said in str(refused.value)


AGAIN = "join: {left: paid, right: order, on: {order_order_id: order_id}, within: 1h}\n"
"""A join of a left join."""


@pytest.mark.parametrize(
    ("also", "own"),
    [
        (AGAIN, []),
        (AGAIN.replace("1h}", "1h, type: full}"), ["unmatched"]),
        ("join: {left: order, right: paid, on: {order_id: order_order_id}, within: 1h, type: left}\n", ["unmatched"]),
    ],
)
def test_a_join_of_events_that_may_be_taken_back_takes_back_what_it_joins(
    tmp_path: Path, also: str, own: list[str]
) -> None:
    again = declared(tmp_path, paid=LEFT, again=also).sources["again"]
    assert again.takes_back
    assert again.id == "joined_row"
    assert [*again.fields][-1 - len(own) :] == ["joined_row", *own]


@pytest.mark.parametrize(
    ("also", "said"),
    [
        (
            f"{AGAIN}volume: {{duplicates: 0.1}}\n",
            "got `volume.duplicates` beside a join of 'paid', whose events may be",
        ),
        (
            f"{AGAIN}id: order_order_id\n",
            "got `id` beside a join of 'paid', whose events may be taken back: leave id out",
        ),
        (
            f"{AGAIN}derived: {{joined_row: '1'}}\n",
            "'joined_row' of 'again' itself is the name of a field of each join",
        ),
        (
            "join: {left: {source: paid, as: one}, right: {source: paid, as: other}, on: order_order_id, within: 1h}\n",
            "got 'paid' on both sides, whose events may be taken back; allowed are two sources",
        ),
    ],
)
def test_what_a_join_of_events_that_may_be_taken_back_cannot_have(tmp_path: Path, also: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, paid=LEFT, again=also)
    assert said in str(refused.value)


def test_a_circle_of_joins_is_refused_with_the_way(tmp_path: Path) -> None:
    one = "join: {left: other, right: order, on: order_order_id, within: 1h}\n"
    other = "join: {left: paid, right: order, on: order_order_id, within: 1h}\n"
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, paid=one, other=other)
    assert "join.left: got 'other', which is joined of 'paid' itself: paid ← other ← paid" in str(refused.value)


LINES = """\
    topic: o
    fields: {order_id: long, lines: "array<TYPE>", at: timestamp}
    explode: {line: lines}
    event_time: at
    """


@pytest.mark.parametrize(
    ("element", "kind"),
    [
        ("string", "string"),
        ("bigint", "long"),
        ("struct<sku: string, n: smallint>", "struct<sku: string, n: smallint>"),
    ],
)
def test_a_source_that_explodes_an_array_is_joined_with_its_elements(tmp_path: Path, element: str, kind: str) -> None:
    paid = declared(tmp_path, order=LINES.replace("TYPE", element)).sources["paid"]
    assert {name: field.type for name, field in paid.fields.items() if name.startswith("order")} == {
        "order_event_time": "timestamp",
        "order_order_id": "long",
        "order_at": "timestamp",
        "order_line": kind,
    }


def test_an_exploded_element_may_be_the_key(tmp_path: Path) -> None:
    joined = "join: {left: order, right: {source: order, as: next}, on: line, within: 1h}\n"
    declared(tmp_path / "text", order=LINES.replace("TYPE", "string"), paid=joined)
    with pytest.raises(DeclarationError, match=r"join\.on\.line: got fields of type struct<sku: string>, allowed are"):
        declared(tmp_path / "struct", order=LINES.replace("TYPE", "struct<sku: string>"), paid=joined)


@pytest.mark.parametrize(
    ("element", "explode"), [("string", "filter(lines, x -> x <> '')"), ("smallint", "lines"), ("string", "`order_id`")]
)
def test_inputs_that_explode_what_only_spark_knows_are_refused(tmp_path: Path, element: str, explode: str) -> None:
    lines = LINES.replace("TYPE", element).replace("{line: lines}", f'{{line: "{explode}"}}')
    with pytest.raises(
        DeclarationError, match=r"got 'order', which explodes '.*': only Spark knows the type"
    ) as refused:
        declared(tmp_path, order=lines)
    assert len(str(refused.value).splitlines()) == 1


def test_the_type_of_exploded_elements_decides_about_pairs(tmp_path: Path) -> None:
    before = decoding_of(declared(tmp_path / "before", order=LINES.replace("TYPE", "string")).sources["paid"])
    now = decoding_of(declared(tmp_path / "now", order=LINES.replace("TYPE", "long")).sources["paid"])
    assert find_other_derivation(before, now) == ["fields of source 'order'"]


def test_fields_of_both_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    deep = "topic: d\nfields: {payment_of_order: long, at: timestamp}\nevent_time: at\n"
    text = "topic: p\nfields: {of_order: long, at: timestamp}\nevent_time: at\n"
    joined = "join: {left: a, right: a_payment, on: {payment_of_order: of_order}, within: 1h}\n"
    with pytest.raises(DeclarationError, match="would both be 'a_payment_of_order'; allowed is each name once"):
        declared(tmp_path, a=deep, a_payment=text, paid=joined)


def test_tests_of_metrics_over_a_joined_source_are_refused(tmp_path: Path) -> None:
    from hourline_core.model.loaded_tests import find_mistakes_of_tests

    test = "given: [{order_id: 1}]\nexpect: {paid_orders: []}\n"
    project = load_project(write_project(tmp_path, {**FILES, "tests/t.yaml": test}))
    assert any("which is joined of 'order' and 'payment'" in line for line in find_mistakes_of_tests(project))


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"payment": FILES["sources/payment.yaml"].replace("paid: double", "paid: double, more: string")}, []),
        ({"order": dedent(FILES["sources/order.yaml"]) + "grace: 2h\ndescription: all of them\n"}, []),
        ({"paid": FILES["sources/paid.yaml"].replace("1h", "2h")}, ["join"]),
        (
            {"paid": FILES["sources/paid.yaml"].replace("  left: order", "  type: left\n          left: order")},
            ["join"],
        ),
        ({"order": FILES["sources/order.yaml"].replace("id: order_id", "id: customer")}, ["fields", "id"]),
        ({"order": dedent(FILES["sources/order.yaml"]) + "where: amount > 1\n"}, ["fields", "where"]),
        ({"order": dedent(FILES["sources/order.yaml"]) + "ahead: 2h\n"}, ["ahead"]),
    ],
)
def test_what_decides_about_pairs_is_told_from_what_does_not(
    tmp_path: Path, changed: dict[str, str], found: list[str]
) -> None:
    before = decoding_of(declared(tmp_path / "before").sources["paid"])
    now = decoding_of(declared(tmp_path / "now", **changed).sources["paid"])
    told = [text.removesuffix(" of source 'order'") for text in find_other_derivation(before, now)]
    assert told == found
    assert find_other_derivation(replace(before, hash="x"), before) == []


def test_the_topology_shows_both_inputs(tmp_path: Path) -> None:
    project = declared(tmp_path)
    assert topology_text(project).splitlines()[-3:] == [
        "sources order and payment",
        "  source paid: joins on order.order_id = payment.of_order; within 10m before and 1h after; event time "
        "greatest(order_event_time, payment_event_time)",
        "    metric paid_orders: pairs = count, amount = sum(order_amount)",
    ]
    outer = topology_text(declared(tmp_path / "left", paid=LEFT))
    assert "  source paid: left join on order.order_id = payment.of_order; within" in outer
    assert "id unmatched" not in outer
    assert "    source_payment --> source_paid" in topology_mermaid(project).splitlines()
    itself = declared(tmp_path / "itself", paid=SELF)
    assert "sources order and order as next" in topology_text(itself).splitlines()
    assert "  source paid: joins on order.customer = next.customer; within 0s before" in topology_text(itself)
    assert topology_mermaid(itself).splitlines().count("    source_order --> source_paid") == 1
