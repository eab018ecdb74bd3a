"""Where a number comes from, as `hourline explain` tells it, against counting visits one by one."""

import json
import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import serving_layer
from hourline import load_project
from hourline.cli import app
from hourline_core.errors import UsageError
from hourline_core.storage.opening import open_table
from hourline_core.storage.vacuum import vacuum
from serving_layer.reports.lineage import Explanation, explain_number
from tests.support.visits import BASE, Visit, Visits, chosen, hour, values

CELLS: list[dict[str, str | None]] = [
    {name: value for name, value in (("page", page), ("slow", slow)) if value != "any"}
    for page, slow in product(("any", "home", "it's", None), ("any", "true", "false"))
]


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    visits = Visits(tmp_path, drift=True)
    visits.start()
    return visits


def explain(site: Visits, number: int, cell: Mapping[str, str | None] | None = None) -> Explanation:
    with serving_layer.connect(site.project) as connection:
        return explain_number(connection, "loads", hour(number), cell)


def command(site: Visits, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["explain", *arguments, "--project", str(site.project.root)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.output.splitlines())


def some_visits(rng: random.Random, count: int, hours: range, known: list[Visit]) -> list[Visit]:
    made = [
        Visit(rng.choice(hours), rng.choice(["home", "it's", None]), rng.choice([5, 80, 120, 900]), f"v{rng.random()}")
        for _ in range(count)
    ]
    again = [
        Visit(v.hour, v.page, v.ms, v.visit, missed=rng.random() < 0.5) for v in rng.sample(known, min(len(known), 3))
    ]
    return made + again


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_each_answer_its_parts_and_its_events_are_as_counted_one_by_one(site: Visits, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    for step in range(4):
        for _ in range(2):
            site.micro_batch(*some_visits(rng, 14, range(step + 1), site.visits))
        site.publish(*rng.sample(range(step + 1), step // 2 + 1), blocked=rng.sample(range(step + 1), step % 2))
        with serving_layer.connect(site.project) as connection:
            for number in range(step + 1):
                for cell in [{}, *rng.sample(CELLS, 3)]:
                    _check(site, connection, number, cell)


def _check(site: Visits, connection: serving_layer.Connection, number: int, cell: Mapping[str, str | None]) -> None:
    final, provisional = (chosen(visits, cell) for visits in (site.final(number), site.provisional(number)))
    if not final and not provisional:
        with pytest.raises(UsageError, match="no row of 'loads'"):
            explain_number(connection, "loads", hour(number), cell)
        return
    found = explain_number(connection, "loads", hour(number), cell)
    assert {answer.measure: answer.value for answer in found.answer} == values(final + provisional)
    assert {answer.measure: answer.final for answer in found.answer} == values(final)
    assert {answer.measure: answer.provisional for answer in found.answer} == values(provisional)
    assert {answer.measure: answer.at_close for answer in found.answer} == values(
        final + [visit for visit in provisional if not visit.late]
    )
    assert found.groups == len({(visit.page, visit.slow) for visit in final + provisional})
    above = {visit.sequence for visit in site.provisional(number)}
    assert (found.versions.cutoff, found.versions.above) == (site.cutoffs.get(number), len(above))
    if above:
        assert (found.versions.first_above, found.versions.last_above) == (min(above), max(above))
    # The archive cannot tell `slow` apart, which only Spark computes.
    of_page = {name: text for name, text in cell.items() if name == "page"}
    arrived = chosen((visit for visit in site.visits if visit.hour == number), of_page)
    accepted = [visit for visit in arrived if not visit.duplicate]
    events = found.events
    assert (events.of, events.before) == (list(of_page), [*(["slow"] if "slow" in cell else []), "where"])
    assert (events.events, events.duplicates, events.late) == (
        len(accepted),
        len(arrived) - len(accepted),
        sum(visit.late for visit in accepted),
    )
    assert events.repeated == sum(
        visit.visit in {v.visit for v in site.visits if v.sequence < visit.sequence} for visit in accepted
    )
    assert events.counted == len(chosen(site.final(number) + site.provisional(number), of_page))
    sequences = sorted({visit.sequence for visit in accepted})
    assert (events.sequences, events.first_arrived, events.last_arrived) == (
        len(sequences),
        site.arrived(sequences[0]),
        site.arrived(sequences[-1]),
    )
    offsets = {
        layer: [
            site.visits.index(v) for v in accepted if (v.sequence <= site.cutoffs.get(number, 0)) == (layer == "final")
        ]
        for layer in LAYERS
    }
    assert {s.layer: (s.first_offset, s.last_offset, s.events) for s in events.stretches} == {
        layer: (min(lying), max(lying), len(lying)) for layer, lying in offsets.items() if lying
    }


LAYERS = ("final", "provisional")


def test_every_published_value_is_told_with_its_cut_and_its_cause(site: Visits) -> None:
    site.micro_batch(Visit(0, "home", 50, "a"), Visit(0, "home", 150, "b"), Visit(0, None, 10, "c"))
    first = site.visits[:]
    site.publish(0)
    site.micro_batch(Visit(0, "home", 50, "a", missed=True), Visit(3, "home", 1, "d"))
    site.micro_batch(Visit(0, "home", 400, "e"))
    once = [*first, site.visits[-1]]
    site.publish(0)
    found = explain(site, 0)
    late = {"visits": 1.0, "worst": 250.0, "mean_ms": pytest.approx((50 + 150 + 10 + 50 + 400) / 5 - 65)}
    assert [(entry.stage, entry.publication, entry.cutoff, entry.values) for entry in found.published] == [
        ("provisional", 1, None, values(first)),
        ("final", 1, 1, values(first)),
        ("at_close", 2, None, values([*first, first[0]])),
        ("provisional", 2, None, values([*first, first[0], once[-1]])),
        ("final", 2, 3, values(once)),
    ]
    reasons = [
        {reason.cause: reason.amount for reason in entry.why if reason.measure == "visits"} for entry in found.published
    ]
    assert reasons == [{}, {}, {}, {"late": 1.0}, {"duplicate": -1.0}]
    assert {reason.measure: reason.amount for reason in found.published[3].why} == late
    assert [entry.published for entry in found.published if entry.stage == "final"] == [
        site.published(1),
        site.published(2),
    ]

    of_home = [(entry.stage, entry.values) for entry in explain(site, 0, {"page": "home"}).published]
    assert of_home == [("final", values(chosen(visits, {"page": "home"}))) for visits in (first, once)]


def test_what_vacuum_has_taken_is_known_no_more_than_drift_has_kept(site: Visits) -> None:
    site.micro_batch(Visit(0, "home", 50, "a"))
    site.publish(0)
    site.micro_batch(Visit(0, "home", 150, "b"))
    site.publish(0)
    vacuum(open_table(site.layout.final(site.source, site.metric), {}), 0)
    of_home = [entry.values for entry in explain(site, 0, {"page": "home"}).published]
    assert of_home == [None, values(site.visits)]
    assert "its values are not kept any more" in command(site, "loads", "2024-03-01T00", "page=home")
    finals = [entry.values for entry in explain(site, 0).published if entry.stage == "final"]
    assert finals == [values(site.visits[:1]), values(site.visits)]


def test_what_did_not_pass_and_who_accepted_it_are_told(site: Visits) -> None:
    site.micro_batch(Visit(0, "home", 50, "a"), Visit(1, "home", 7, "z"))
    site.publish(0, 1)
    site.micro_batch(Visit(0, "home", 900, "b"))
    site.publish(0, blocked=[0])
    found = explain(site, 0, {"page": "home"})
    assert (found.state, found.audit and found.audit.outcome) == ("blocked", "blocked")
    assert [(entry.stage, entry.cutoff, entry.values) for entry in found.published] == [
        ("final", 1, values(site.visits[:1])),
        ("blocked", 2, values([site.visits[0], site.visits[2]])),
    ]
    assert found.published[-1].note == "expect_column_max_to_be_between of worst: 900"
    site.publish(0, person="ada: a slow day")
    site.publish(0)
    found = explain(site, 0)
    assert [entry.note for entry in found.published if entry.stage == "final"] == [
        "",
        "accepted by ada: a slow day",
        "",
    ]
    assert [entry.values for entry in found.published if entry.stage == "blocked"] == [None], (
        "its rows are staged no more"
    )
    assert explain(site, 1).published[-1].publication == 1, "another hour's"


def test_an_hour_from_before_its_metric_is_missing_and_has_no_answer(tmp_path: Path) -> None:
    site = Visits(tmp_path)
    site.start(knows_metric=False)
    site.micro_batch(Visit(0, "home", 50))
    site.start()
    site.micro_batch(Visit(0, "home", 60))
    found = explain(site, 0)
    assert (found.state, found.groups, {answer.value for answer in found.answer}) == ("missing", 0, {None})
    assert "no answer: it has events that the metric has not seen" in command(site, "loads", "2024-03-01T00")


def test_an_older_declaration_that_is_served_is_named(site: Visits) -> None:
    site.micro_batch(Visit(0, "home", 50))
    site.publish(0)
    declared = explain(site, 0).declared
    (site.project.root / "metrics/loads.yaml").write_text(
        "source: visits\ndimensions: [page]\nmeasures: {visits: count, least: min(ms)}\n"
    )
    site.project = load_project(site.project.root)
    now = explain(site, 0, {"slow": "false"}).declared
    assert (now.hash, now.where, list(now.measures)) == (
        declared.hash,
        "ms >= 0",
        ["visits", "mean_ms", "worst", "pages"],
    )
    assert now.changing is not None and declared.changing is None
    assert "metric 'loads' has changed; it answers by its older declaration" in command(site, "loads", "2024-03-01T00")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lods", "2024-03-01T00"], "there is no metric 'lods' — did you mean 'loads'?"),
        (["unseen", "2024-03-01T00"], "metric 'unseen' has no tables yet"),
        (["loads", "2024-03-01T00:30"], "is not on the hour (UTC)"),
        (
            ["loads", "2024-03-01T09"],
            "no event in 2024-03-01T09:00Z; the nearest hours are 2024-03-01T04:00Z",
        ),
        (["loads", "2024-03-01T00", "pag=home"], "metric 'loads' has no dimension 'pag' — did you mean 'page'?"),
        (["loads", "2024-03-01T00", "=home"], "got '=home', allowed is DIMENSION=VALUE"),
        (["loads", "2024-03-01T00", "page=home", "page=cart"], "got dimension 'page' twice"),
        (
            ["loads", "2024-03-01T00", "page=hom"],
            "no row of 'loads' in 2024-03-01T00:00Z has page 'hom' — did you mean 'home'?",
        ),
        (["loads", "2024-03-01T01", "page"], "has page null (there is: cart)"),
        (["loads", "2024-03-01T00", "page=null"], "(there is: home); null is written page alone"),
        (["loads", "2024-03-01T00", "page="], "has page '' (there is: home); null is written page alone"),
        (["loads", "2024-03-01T00", "slow=maybe"], "got 'maybe' for dimension 'slow', which is of type BOOLEAN"),
        (
            ["loads", "2024-03-01T00", "page=home", "slow=true"],
            "has page 'home' and slow 'true' together, although each of them exists",
        ),
    ],
)
def test_a_wrong_argument_gets_one_sentence(site: Visits, arguments: list[str], said: str) -> None:
    site.micro_batch(Visit(0, "home", 50), Visit(0, None, 150), Visit(1, "cart", 50), Visit(4, "home", 50))
    with pytest.raises(UsageError) as error:
        command(site, *arguments)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_page(site: Visits) -> None:
    site.micro_batch(
        Visit(0, "home", 50, "a"), Visit(0, "home", 150, "b"), Visit(0, "cart", 10, "c"), Visit(3, "home", 1, "d")
    )
    site.publish(0)
    site.micro_batch(Visit(0, "home", 400, "e"), Visit(0, "home", 50, "a"))
    page = command(site, "loads", "2024-03-01T00", "page=home")
    assert page.splitlines() == PAGE.format(hash=site.aggregation.declaration).splitlines()
    report: dict[str, Any] = json.loads(command(site, "loads", "2024-03-01T00", "page=home", "--format", "json"))
    assert (report["state"], report["hour"], report["dimensions"]) == (
        "revised",
        f"{BASE:%Y-%m-%dT%H:%M:%SZ}",
        {"page": "home"},
    )
    assert report["answer"][0] == {
        "measure": "visits",
        "declared": "count",
        "value": 3,
        "final": 2,
        "provisional": 1,
        "at_close": 2,
    }


def test_the_numbers_of_events_add_up(tmp_path: Path) -> None:
    site = Visits(tmp_path)
    site.start()
    site.micro_batch(*(Visit(0, "home", 5, visit) for visit in "xyz"), *(Visit(0, "home", 5, "x", missed=True),) * 2)
    site.publish(0)
    site.micro_batch(Visit(0, "home", 5, "y", missed=True))
    said = CliRunner().invoke(app, ["explain", "loads", "2024-03-01T00", "--project", str(site.project.root)]).stdout
    assert "6 accepted of the hour (before where), none of them late; no duplicates left out on arrival" in said
    assert (
        "of the 6 accepted, 4 count; 2 repeat an old id, and the recompute left them out; "
        "1 of those that count repeat an old id, and the next recompute leaves them out"
    ) in said


PAGE = """\
loads, page home, 2024-03-01 00:00 UTC: revised
How long pages take

measure  value  final  provisional  declared as
visits       3      2            1  count
mean_ms    200    100          400  mean(ms)
worst      400    150          400  max(ms)
pages        1      1            1  distinct(page)

declared  {hash}, source visits, id visit; 2 groups merged over slow
          slow: ms > 100
          where: ms >= 0
events    3 accepted of page home (before where), 1 of them late; 1 duplicate left out on arrival
          arrived 2024-03-02 00:00:01 … 00:00:02 in 2 micro-batches
          visits[0] offsets 0 … 1, sequence 1: 2 in final
          visits[0] offset 4, sequence 2: 1 in provisional
read at   sequence 2, publication 1; versions of the tables: progress 3, provisional 3, final 1
          cutoff 1, published 2024-03-02 01:00:00; above the cutoff: 1 micro-batch, sequence 2
audit     passed 2024-03-02 01:00:00, 1 expectation

published (UTC)      publication  as       cutoff  visits  mean_ms  worst  pages  why (over all dimensions)
2024-03-02 01:00:00            1  final         1       2      100    150      1
now                               revised               3      200    400      1
"""
