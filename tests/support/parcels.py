"""A project with every kind of measure: parcels that are scanned on their way. Declared twice, in YAML and, for the
oracle, in Python.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD

BEGIN = datetime(2024, 5, 6, 20, tzinfo=UTC)

FILES = {
    # With a trigger, a stream that waits leaves the processor to the tests.
    "hourline.yaml": """\
        name: TOPIC
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "${SPARK_MASTER:local[2]}"}
        speed: {max_records_per_batch: RECORDS_PER_BATCH, trigger: 300ms}
        """,
    "sources/scans.yaml": """\
        topic: TOPIC
        fields:
          scan: string
          depot: {type: string, required: true}
          belt: string
          parcel: long
          weight: int
          price: decimal(12,2)
          speed: double
          fragile: boolean
          day: date
          seen: timestamp
          at: string
        event_time: at
        id: scan
        id_horizon: 2h
        derived:
          heavy: weight > 5000
          per_kilo: price / (weight / 1000)
        where: depot <> 'TEST'
        grace: 1h
        partitions: 3
        """,
    "metrics/flow.yaml": """\
        source: scans
        dimensions:
          - depot
          - belt
          - size: case when weight >= 5000 then 'large' when weight is not null then 'small' end
        measures:
          scans: count
          weight: sum(weight)
          price: sum(price)
          way: sum(speed)
          lightest: min(weight)
          dearest: max(price)
          slowest: min(speed)
          first_day: min(day)
          last_seen: max(seen)
          last_text: max(at)
          speed: mean(speed)
          mean_price: mean(price)
          first_scan: first(scan)
          last_price: last(price) where belt = 'a'
          last_fast: last(speed > 5)
          median_speed: median(speed)
          median_price: quantile(price, 0.5) where fragile
          spread: stddev(speed)
          price_spread: var_pop(price) where weight > 1000
          parcels: distinct(parcel)
          scanners: distinct(scan)
          heavy: count_if(weight > 5000) where belt = 'a'
          price_of_fragile: sum(price) where fragile
          heavy_parcels: distinct(parcel) where heavy
          some_fragile: any(fragile)
          all_fast: every(speed > 2) where not fragile
          weights: top(weight div 2500, 10) where depot <> 'north'
        """,
    "metrics/fragile.yaml": """\
        source: scans
        dimensions: [depot]
        measures:
          heavy_share: ratio(heavy_scans, scans)
          scans: count
          heavy_scans: count where heavy
          heavy: sum(heavy)
          fastest: max(speed)
          belts: distinct(belt)
          priced: max(per_kilo is not null)
          frequency: rate(scans)
        where: fragile and weight > 100
        """,
}


OWN_MEASURE = "          own_spread: spread(weight) where fragile\n"
"""A measure that is a class. Each Spark that computes it starts processes of Python."""

FEW = ("scans", "price", "speed", "last_price", "median_speed", "parcels", "heavy_share", "heavy_scans")
"""Measures that count, add, merge, take the last, have buckets or a sketch, and a ratio. Planning, compiling and auditing
all the others is most of what a test costs that is about something else.
"""
NATIVE = ("scans", "price", "lightest", "dearest", "speed", "parcels", "heavy_share", "heavy_scans", "some_fragile")
"""Measures that DuckDB computes, so that a recompute reads the archive without Spark SQL."""


def rule(*, few: bool = False, native: bool = False, own: bool = False) -> SourceRule:
    """The same declarations in Python."""
    flow = MetricRule(
        dimensions={"depot": get("depot"), "belt": get("belt"), "size": _size},
        measures={
            "scans": ("count", get("scan")),
            "weight": ("sum", get("weight")),
            "price": ("sum", _price),
            "way": ("sum", get("speed")),
            "lightest": ("min", get("weight")),
            "dearest": ("max", _price),
            "slowest": ("min", get("speed")),
            "first_day": ("min", lambda body: body["day"] and datetime.fromisoformat(body["day"]).date()),
            "last_seen": ("max", lambda body: body["seen"] and datetime.fromisoformat(body["seen"])),
            "last_text": ("max", get("at")),
            "speed": ("mean", get("speed")),
            "mean_price": ("mean", _price),
            "first_scan": ("first", get("scan")),
            "last_price": ("last", lambda body: _price(body) if body["belt"] == "a" else None),
            "last_fast": ("last", lambda body: body["speed"] and body["speed"] > 5),
            "median_speed": ("quantile", get("speed")),
            "median_price": ("quantile", lambda body: _price(body) if body["fragile"] else None),
            "spread": ("stddev", get("speed")),
            "price_spread": ("var_pop", lambda body: _price(body) if (body["weight"] or 0) > 1000 else None),
            "parcels": ("distinct", get("parcel")),
            "scanners": ("distinct", get("scan")),
            "heavy": ("count_if", lambda body: body["belt"] == "a" and (body["weight"] or 0) > 5000),
            "price_of_fragile": ("sum", lambda body: _price(body) if body["fragile"] else None),
            "heavy_parcels": ("distinct", lambda body: body["parcel"] if (body["weight"] or 0) > 5000 else None),
            "some_fragile": ("any", get("fragile")),
            "all_fast": (
                "every",
                lambda body: body["speed"] and body["speed"] > 2 if body["fragile"] is False else None,
            ),
            "weights": (
                "top",
                lambda body: (
                    None if body["weight"] is None or body["depot"] == "north" else str(body["weight"] // 2500)
                ),
            ),
        },
    )
    fragile = MetricRule(
        where=lambda body: body["fragile"] and body["weight"] is not None and body["weight"] > 100,
        dimensions={"depot": get("depot")},
        measures={
            "heavy_share": ("share", lambda body: body["weight"] > 5000),
            "scans": ("count", get("scan")),
            "heavy_scans": ("count_if", lambda body: body["weight"] > 5000),
            "heavy": ("sum", lambda body: None if body["weight"] is None else int(body["weight"] > 5000)),
            "fastest": ("max", get("speed")),
            "belts": ("distinct", get("belt")),
            "priced": ("max", lambda body: body["price"] is not None and bool(body["weight"])),
            "frequency": ("per_second", get("scan")),
        },
    )
    metrics = {"flow": flow, "fragile": fragile}
    if own:
        spread = ("variance", lambda body: body["weight"] if body["fragile"] else None)
        metrics["flow"] = replace(flow, measures={**flow.measures, "own_spread": spread})
    if few or native:
        kept = NATIVE if native else FEW
        metrics = {
            name: replace(one, measures={measure: of for measure, of in one.measures.items() if measure in kept})
            for name, one in metrics.items()
        }
    return SourceRule(
        time=lambda body: datetime.fromisoformat(body["at"]).astimezone(UTC),
        metrics=metrics,
        where=lambda body: body["depot"] != "TEST",
        id=get("scan"),
        id_horizon=timedelta(hours=2),
    )


def make(
    root: Path,
    kafka: str,
    topic: str,
    records_per_batch: int = 500,
    partitions: int = 3,
    *,
    few: bool = False,
    native: bool = False,
    own: bool = False,
) -> StackProject:
    """The project in ``root``, reading ``topic``. ``few``: with no measures but FEW. ``native``: with none but NATIVE.
    ``own``: with OWN_MEASURE, too.
    """
    files = {
        name: text.replace("TOPIC", topic)
        .replace("RECORDS_PER_BATCH", str(records_per_batch))
        .replace("partitions: 3", f"partitions: {partitions}")
        for name, text in FILES.items()
    }
    if own:
        files["measures/spread.py"] = SPREAD
        files["metrics/flow.yaml"] = files["metrics/flow.yaml"].rstrip(" ") + OWN_MEASURE
    if few or native:
        files = keep_few(files, NATIVE if native else FEW)
    write_project(root, files)
    return StackProject(root, kafka, {"scans": rule(few=few, native=native, own=own)})


def keep_few(files: Mapping[str, str], kept: Sequence[str] = FEW) -> dict[str, str]:
    """The files of the project, without the measures that are not in ``kept``."""
    others = re.compile(rf"^ {{10}}(?!(?:{'|'.join(kept)}):)\w+: .*\n", re.MULTILINE)
    return {
        name: before + line + others.sub("", measures)
        for name, (before, line, measures) in ((name, text.partition("measures:\n")) for name, text in files.items())
    }


def make_finished(
    root: Path, kafka: str, topic: str, partitions: int = 3, *, few: bool = False, native: bool = False
) -> StackProject:
    """The project in ``root`` with hours of every state: some are recomputed, and one of these is revised since."""
    project = make(root, kafka, topic, partitions=partitions, few=few, native=native)
    project.send("scans", scans(project.random, 400, first_hour=0, hours=5))
    project.drain()
    project.recompute()
    project.send("scans", scans(project.random, 50, first_hour=1, hours=1))
    project.drain()
    return project


def scans(rand: random.Random, count: int, first_hour: int, hours: int) -> list[Body]:
    """Events in hours from BEGIN on; about one in eight is a duplicate of an earlier one, some of those with other
    values, some in another hour.
    """
    events: list[Body] = []
    for _ in range(count):
        if events and rand.random() < 0.12:
            events.append(_duplicate(rand, rand.choice(events)))
        else:
            events.append(_scan(rand, first_hour, hours))
    return events


def get(name: str) -> Any:
    return lambda body: body[name]


def _scan(rand: random.Random, first_hour: int, hours: int) -> Body:
    at = BEGIN + timedelta(hours=first_hour, microseconds=rand.randrange(hours * 3_600_000_000))
    if rand.random() < 0.1:  # the very edges of an hour
        at = at.replace(minute=0, second=0, microsecond=0) + rand.choice(
            [timedelta(0), timedelta(hours=1, microseconds=-1)]
        )
    zone = rand.choice(["Z", "+00:00"])
    return {
        "scan": maybe(rand, f"s{rand.randrange(10**9)}", 0.05),
        "depot": rand.choice(["north", "south", "west", "TEST"]),
        "belt": maybe(rand, rand.choice(["a", "b", ""]), 0.2),
        "parcel": maybe(rand, rand.randrange(-(2**62), 2**62), 0.1),
        "weight": maybe(rand, rand.randrange(0, 10_000), 0.1),
        # A number in JSON that a double holds exactly as far as its decimals go.
        "price": maybe(rand, rand.randrange(-10_000, 100_000) / 100, 0.1),
        "speed": maybe(rand, rand.uniform(0.1, 9), 0.1),
        "fragile": maybe(rand, rand.random() < 0.5, 0.1),
        "day": maybe(rand, f"{at:%Y-%m-%d}", 0.1),
        "seen": maybe(rand, f"{at:%Y-%m-%dT%H:%M:%S.%f}+02:00", 0.1),
        "at": f"{at:%Y-%m-%dT%H:%M:%S.%f}{zone}",
    }


def maybe(rand: random.Random, value: Any, null: float) -> Any:
    """``value``, or None with the probability ``null``."""
    return None if rand.random() < null else value


def _duplicate(rand: random.Random, of: Body) -> Body:
    match rand.randrange(4):
        case 0:
            return {**of, "weight": 1, "depot": rand.choice(["north", "TEST"])}
        case 1:
            return {
                **of,
                "at": f"{datetime.fromisoformat(of['at']) + timedelta(minutes=rand.randrange(-40, 0)):%Y-%m-%dT%H:%M:%S.%f}Z",
            }
        case _:
            return dict(of)


def _size(body: Body) -> str | None:
    return None if body["weight"] is None else "large" if body["weight"] >= 5000 else "small"


def _price(body: Body) -> Decimal | None:
    return None if body["price"] is None else Decimal(str(body["price"])).quantize(Decimal("0.01"))


GARBAGE = [
    b"{",
    None,
    b'{"depot": null, "at": "2024-05-06T20:00:00Z"}',
    b"",
    b"\xff",
    b'{"depot": "north", "at": "yesterday"}',
]
