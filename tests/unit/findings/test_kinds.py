"""Each kind of finding, by facts alone: it opens beyond its default bound, stays one, and closes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourline_core.findings.evaluate import evaluate
from hourline_core.findings.facts import (
    ChangedLookup,
    GapFacts,
    PartitionFacts,
    Quarantine,
    Reason,
    Recent,
    RefusedLookup,
    RejectedRun,
    Silence,
    SourceClockFacts,
    SourceFacts,
    SpeedFacts,
    Waiting,
)
from hourline_core.ledger.finding import Finding
from hourline_core.model import EventTime, Field, Settings, Source
from hourline_core.model.files import Files
from hourline_core.model.finding_bounds import SourceFindings, SpeedFindings
from hourline_core.model.hours import HOUR
from hourline_core.model.join import Join, JoinSide, Within
from hourline_core.runtime.kafka_absence import KafkaAbsence
from hourline_core.runtime.registry_absence import RegistryAbsence
from hourline_core.runtime.sink_state import SinkProblem
from hourline_core.runtime.speed_end import SpeedEnd
from hourline_core.runtime.unread_files import HeldFile

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
BEGUN = NOW - timedelta(days=2)
MINUTE = timedelta(minutes=1)
BAD = Reason("invalid JSON", 40, "orders[0]@7")
RUNS = SpeedFacts(runs=True)


def source(**changes: Any) -> Source:
    return Source(
        name="orders",
        topic="orders",
        fields={"n": Field(type="long")},
        event_time=EventTime(expression="at"),
        **changes,
    )


def facts(declared: Source | None = None, **changes: Any) -> SourceFacts:
    """A healthy source, with these changes."""
    recent = Recent(NOW - HOUR, NOW - MINUTE, events=1000, accepted=1000)
    silence = Silence(NOW - MINUTE, 10 * MINUTE, BEGUN)
    clock = SourceClockFacts(NOW - MINUTE, NOW - MINUTE, MINUTE)
    healthy = SourceFacts(
        declared or source(), "sources/orders.yaml", recent=recent, silence=silence, clock=clock, ids=1000
    )
    return replace(healthy, **changes)


def found(
    known: SourceFacts, speed: SpeedFacts = RUNS, now: datetime = NOW, settings: Settings | None = None
) -> list[Finding]:
    return evaluate(settings or Settings(), [known], speed, now)


def recent(**counts: int) -> dict[str, Any]:
    return {"recent": Recent(NOW - HOUR, NOW - MINUTE, **{"events": 1000, "accepted": 1000, **counts})}


def partition(number: int, behind: timedelta, silent: timedelta, usual: timedelta = MINUTE) -> PartitionFacts:
    return PartitionFacts(f"orders[{number}]", NOW - behind, Silence(NOW - MINUTE - silent, usual, BEGUN))


OUTER = source().model_copy(
    update={
        "topic": None,
        "join": Join(
            left=JoinSide(source="a"), right=JoinSide(source="b"), on={"n": "n"}, within=Within(after=HOUR), type="left"
        ),
    }
)
LIVE = partition(0, MINUTE, timedelta(0))
STANDS = SourceClockFacts(NOW - 5 * HOUR, NOW - 3 * HOUR, MINUTE)
WITH_IDLE = source(idle=timedelta(minutes=15))
BRANCH = source(branch="n = 1")
WITH_ID = source(id="n")

OPENS: dict[str, tuple[SourceFacts, SourceFacts, str, str]] = {
    "all_rejected": (
        facts(run=RejectedRun(NOW - HOUR, NOW, 9)),
        facts(run=RejectedRun(NOW - HOUR, NOW, 10), reasons=(BAD,)),
        "fail",
        "every record since 2026-03-02 11:00 UTC was rejected, 10 of them: 40 × invalid JSON",
    ),
    "rejected": (
        facts(**recent(rejected=50)),
        facts(**recent(rejected=51), reasons=(BAD,)),
        "fail",
        "5.1 % of the records were rejected, 51 of 1,000 (expected: at most 5 %): 40 × invalid JSON",
    ),
    "new_reason": (
        facts(new_reasons=(replace(BAD, arrived=BEGUN + HOUR),)),
        facts(new_reasons=(replace(BAD, arrived=NOW - HOUR),)),
        "warn",
        "records are rejected for a reason that was not seen before: 40 × invalid JSON",
    ),
    "late": (facts(**recent(late=500)), facts(**recent(late=501)), "warn", "50.1 % of the accepted events came after"),
    "duplicates": (
        facts(WITH_ID, **recent(duplicates=1000)),
        facts(WITH_ID, **recent(duplicates=1010)),
        "warn",
        "50.2 % of the events are duplicates, 1,010 of 2,010",
    ),
    "taken_by_none": (facts(BRANCH), facts(BRANCH, **recent(taken_by_none=1)), "warn", "no branch takes 1 record(s)"),
    "quarantine": (
        facts(),
        facts(quarantine=Quarantine(3, "measures/slow.py", "ValueError: no (line 4)", NOW - HOUR)),
        "warn",
        "a class fails for 3 event(s), so its metric does not count them: ValueError: no (line 4)",
    ),
    "held_clock": (
        facts(
            clock=SourceClockFacts(NOW - 2 * HOUR, NOW - HOUR - MINUTE, MINUTE),
            partitions=(LIVE, partition(1, 2 * HOUR, timedelta(0))),
        ),
        facts(clock=STANDS, partitions=(LIVE, partition(1, 5 * HOUR, timedelta(0)))),
        "fail",
        "the clock stands at 2026-03-02 07:00 UTC since 2026-03-02 09:00 UTC, held by orders[1], whose records",
    ),
    "silent_partition": (
        facts(partitions=(LIVE, partition(1, 5 * HOUR, HOUR))),
        facts(partitions=(LIVE, partition(1, 5 * HOUR, HOUR + MINUTE))),
        "fail",
        "orders[1] has had no record since 2026-03-02 10:58 UTC, while others have; the source declares no `idle`",
    ),
    "idle_partition": (
        facts(WITH_IDLE, partitions=(LIVE, partition(1, 5 * HOUR, 3 * HOUR, usual=2 * HOUR))),
        facts(WITH_IDLE, partitions=(LIVE, partition(1, 5 * HOUR, 4 * HOUR + MINUTE, usual=2 * HOUR))),
        "warn",
        "orders[1] has had no record since 2026-03-02 07:58 UTC, while others have",
    ),
    "silence": (
        facts(silence=Silence(NOW - 2 * HOUR, HOUR, BEGUN)),
        facts(silence=Silence(NOW - 2 * HOUR - MINUTE, HOUR, BEGUN)),
        "warn",
        "no record has been read for 2h 1m (usually at most 1h)",
    ),
    "overdue_hours": (
        # The hour from 8:00 is due at 10:21: its end, the grace of an hour, a minute's delay, twice ten minutes' silence.
        facts(clock=replace(STANDS, time=NOW - 2.5 * HOUR, delay=HOUR)),
        facts(clock=replace(STANDS, time=NOW - 2.5 * HOUR)),
        "warn",
        "the hour 2026-03-02 08:00 UTC should have closed by 2026-03-02 10:21 UTC",
    ),
    "topic_gone": (
        facts(),
        facts(gone={"orders": NOW - HOUR}),
        "fail",
        "the topic orders was deleted, and the source has waited for a new one since 2026-03-02 11:00 UTC",
    ),
    "registry_away": (
        facts(registry=RegistryAbsence(NOW - 5 * MINUTE, "it does not answer.")),
        facts(registry=RegistryAbsence(NOW - 6 * MINUTE, "it does not answer.")),
        "fail",
        "the source has waited for the schema registry for 6m: it does not answer",
    ),
    "unread_files": (
        facts(),
        facts(
            unread_files=(HeldFile("b.csv", "it is cut", NOW), HeldFile("a.csv", "it was changed", NOW - HOUR)),
            all_unread_files=200,
        ),
        "fail",
        "200 file(s) or folder(s) that arrived are not read: a.csv: it was changed; b.csv: it is cut",
    ),
    "gap": (
        facts(),
        facts(gaps=(GapFacts("orders.7", 10, NOW - HOUR), GapFacts("orders.9", 5, NOW))),
        "fail",
        "Kafka deleted at most 15 record(s) before they were read (orders.7, orders.9)",
    ),
    "not_recomputed": (
        # Due at 10:05, with the deadline at 10:50.
        facts(waiting=Waiting(2, NOW - 1.9 * HOUR)),
        facts(waiting=Waiting(2, NOW - 2 * HOUR - MINUTE)),
        "warn",
        "2 closed hour(s) wait for a recompute, the first since 2026-03-02 09:59 UTC; by the schedule, it was due at",
    ),
    "refused_lookup": (
        facts(),
        facts(refused_lookups=(RefusedLookup("plane", "there is no file planes.csv", NOW - HOUR),)),
        "fail",
        "the table of lookup plane cannot be used, so the last good version is used: there is no file planes.csv",
    ),
    "changed_lookup": (
        facts(),
        facts(changed_lookups=(ChangedLookup("plane", 1_234, 1_000, NOW - HOUR),)),
        "fail",
        "rows of lookup plane have changed that events of 1,234 published hours met, and 1,000 are allowed",
    ),
    "failing_sink": (
        facts(failing_sinks=(SinkProblem("out", "no answer", NOW - MINUTE),)),
        facts(failing_sinks=(SinkProblem("out", "no answer", NOW - 2 * MINUTE), SinkProblem("hook", "x", NOW))),
        "fail",
        "results do not arrive at sink out: no answer",
    ),
    "remembered_ids": (
        facts(WITH_ID, ids=1 << 27),
        facts(WITH_ID, ids=(1 << 27) + 1),
        "warn",
        "the ids of 134,217,729 events within the horizon take 1.0 GiB",
    ),
}


@pytest.mark.parametrize("kind", OPENS)
def test_a_finding_opens_beyond_its_bound_and_closes(kind: str) -> None:
    fine, bad, severity, words = OPENS[kind]
    assert found(fine) == []
    assert [one.kind for one in found(bad)] == [kind]
    (one,) = found(bad)
    assert (one.kind, one.source, one.severity) == (kind, "orders", severity)
    assert one.sentence.startswith(words)
    assert one.remedy
    assert BEGUN <= one.first <= one.last <= NOW
    assert found(facts(bad.source)) == [], "its cause has gone"


@pytest.mark.parametrize("kind", OPENS)
def test_each_severity_can_be_declared(kind: str) -> None:
    bad = OPENS[kind][1]
    assert set(OPENS) == set(SourceFindings.model_fields)
    for severity in ("fail", "warn"):
        (one,) = found(replace(bad, source=declared(bad.source, kind, severity)))
        assert one.severity == severity
    assert kind not in {one.kind for one in found(replace(bad, source=declared(bad.source, kind, "off")))}


def declared(of: Source, kind: str, bound: Any) -> Source:
    return Source.model_validate({**of.model_dump(exclude_defaults=True), "findings": {kind: bound}})


@pytest.mark.parametrize(
    ("kind", "bound"),
    {
        "rejected": 0.2,
        "late": 0.9,
        "duplicates": 0.9,
        "held_clock": "3h",
        "silent_partition": "2h",
        "idle_partition": "6h",
        "silence": "3h",
        "overdue_hours": "2h",
        "not_recomputed": "2h",
        "registry_away": "6m",
        "remembered_ids": "2g",
    }.items(),
)
def test_each_bound_can_be_declared(kind: str, bound: Any) -> None:
    bad = OPENS[kind][1]
    assert kind not in {one.kind for one in found(replace(bad, source=declared(bad.source, kind, bound)))}


def test_the_end_of_the_speed_layer_is_found_until_one_runs() -> None:
    killed = SpeedFacts(runs=False, ended=SpeedEnd(None, None), seen=NOW - HOUR)
    silent = facts(silence=Silence(NOW - 5 * HOUR, HOUR, BEGUN))
    (one,) = found(silent, killed)
    assert (one.kind, one.source, one.severity, one.first) == ("ended", None, "fail", NOW - HOUR)
    assert one.sentence == "the speed layer has ended, and nobody told it to: its process was killed"
    full = replace(killed, ended=SpeedEnd(NOW - MINUTE, "the disk is full."))
    assert found(facts(), full)[0].sentence.endswith("nobody told it to: the disk is full")
    assert found(facts()) == []
    off = Settings(findings=SpeedFindings(ended="off"))
    (silence,) = found(silent, killed, settings=off)
    assert silence.sentence.endswith("and the speed layer does not run")
    assert silence.remedy == "`hourline up` starts the speed layer"


def test_kafka_is_missed_after_five_minutes() -> None:
    away = KafkaAbsence(NOW - 5 * MINUTE, "it does not answer.")
    assert found(facts(), replace(RUNS, away=away)) == []
    (one,) = found(facts(), replace(RUNS, away=away), now=NOW + MINUTE)
    assert one.sentence == "Kafka has been away for 6m: it does not answer"
    assert found(facts(), replace(RUNS, away=replace(away, until=NOW)), now=NOW + MINUTE) == []


def test_nothing_is_usual_before_a_day_has_passed() -> None:
    young = Silence(NOW - 10 * HOUR, MINUTE, NOW - 30 * HOUR)
    assert found(facts(silence=young, clock=replace(STANDS, time=NOW - 10 * HOUR))) == []


def test_what_follows_from_another_finding_is_not_told_beside_it() -> None:
    rejected: dict[str, Any] = {
        "run": RejectedRun(NOW - HOUR, NOW, 10),
        "new_reasons": (replace(BAD, arrived=NOW),),
        "clock": STANDS,
    }
    assert [one.kind for one in found(facts(**recent(rejected=900), **rejected))] == ["all_rejected"]
    silent = facts(silence=Silence(NOW - 9 * HOUR, HOUR, BEGUN), clock=replace(STANDS, time=NOW - 9 * HOUR))
    assert [one.kind for one in found(silent)] == ["silence"]
    assert [one.kind for one in found(replace(silent, gone={"orders": NOW}))] == ["topic_gone"]
    waits = RegistryAbsence(NOW - HOUR, "it does not answer")
    assert [one.kind for one in found(replace(silent, registry=waits))] == ["registry_away"]


def test_silent_partitions_are_one_finding() -> None:
    dead = [partition(number, 5 * HOUR, 2 * HOUR) for number in range(1, 6)]
    (one,) = found(facts(partitions=(LIVE, *dead)))
    assert one.sentence.startswith("orders[1], orders[2], orders[3], 2 more have had no record")
    assert one.numbers["partitions"] == [known.name for known in dead]


def test_an_input_of_a_left_join_that_is_silent_is_no_finding_of_the_join() -> None:
    behind = partition(1, 5 * HOUR, 5 * HOUR)
    assert [one.kind for one in found(facts(partitions=(LIVE, behind)))] == ["silent_partition"]
    assert found(facts(OUTER, partitions=(LIVE, behind))) == []


def test_late_events_of_files_may_be_those_of_an_earlier_day() -> None:
    of_files = source().model_copy(update={"topic": None, "files": Files(folder="in")})
    (late,) = found(facts(of_files, **recent(late=900)))
    assert late.kind == "late"
    assert late.remedy.startswith(
        "if earlier files arrived behind later ones, `hourline recompute` counts their events; "
    )
