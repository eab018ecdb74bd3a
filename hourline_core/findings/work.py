"""Findings about what should run: the speed layer, its topics, and recomputes; and about what Kafka has lost."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from hourline_core.findings.facts import SourceFacts, SpeedFacts
from hourline_core.findings.found import Found, listed, minute, roughly
from hourline_core.ledger.finding import REPORTS
from hourline_core.model.finding_bounds import SpeedFindings
from hourline_core.model.schedule import ScheduleSettings


def find_in_work(facts: SourceFacts, schedule: ScheduleSettings, now: datetime) -> Iterator[Found | None]:
    """What is found of a source's topics, schemas, gaps, recomputes and lookups at ``now`` (UTC)."""
    yield find_gone_topics(facts, now)
    yield find_registry_away(facts, now)
    yield find_unread_files(facts)
    yield find_gaps(facts)
    yield find_not_recomputed(facts, schedule, now)
    yield find_refused_lookups(facts, now)
    yield find_failing_sinks(facts, now)
    yield find_changed_lookups(facts, now)


def find_in_speed_layer(facts: SpeedFacts, bounds: SpeedFindings, now: datetime) -> Iterator[Found | None]:
    """What is found of the speed layer, and of the reports, at ``now`` (UTC)."""
    yield find_end(facts, now)
    yield find_kafka_away(facts, bounds, now)
    yield find_unwritten_reports(facts, now)


def find_gone_topics(facts: SourceFacts, now: datetime) -> Found | None:
    """Topics that were deleted."""
    if not facts.gone:
        return None
    since, names = min(facts.gone.values()), listed(sorted(facts.gone))
    return Found(
        "topic_gone",
        since,
        now,
        f"the topic {names} was deleted, and the source has waited for a new one since {minute(since)}",
        "create the topic; or restart the speed layer, which creates it: `hourline down` and `hourline up`",
        {"topics": sorted(facts.gone)},
    )


def find_registry_away(facts: SourceFacts, now: datetime) -> Found | None:
    """A schema that the registry does not tell."""
    away = facts.registry
    if away is None or now - away.since <= facts.source.findings.registry_away.after:
        return None
    return Found(
        "registry_away",
        away.since,
        now,
        f"the source has waited for the schema registry for {roughly(now - away.since)}: {away.reason.rstrip('.')}",
        "mend that; the source then goes on by itself. After a change of hourline.yaml: `hourline down` and "
        "`hourline up`",
        {"seconds": (now - away.since).total_seconds()},
    )


def find_unread_files(facts: SourceFacts) -> Found | None:
    """Files that are not read as they are."""
    held = sorted(facts.unread_files, key=lambda one: (one.since, one.name))
    if not held:
        return None
    told = listed([f"{one.name}: {one.reason}" for one in held], "; ")
    return Found(
        "unread_files",
        held[0].since,
        held[-1].since,
        f"{facts.all_unread_files:,} file(s) or folder(s) that arrived are not read: {told}",
        "mend what the reasons name: each is looked at again when it changes; or take the file away",
        {"files": facts.all_unread_files},
        held[0].name,
    )


def find_gaps(facts: SourceFacts) -> Found | None:
    """Records that Kafka deleted before they were read."""
    if not facts.gaps:
        return None
    lost = sum(gap.records for gap in facts.gaps)
    first = facts.gaps[0]
    return Found(
        "gap",
        min(gap.found for gap in facts.gaps),
        max(gap.found for gap in facts.gaps),
        f"Kafka deleted at most {lost:,} record(s) before they were read ({listed([gap.name for gap in facts.gaps])}); "
        "their hours are incomplete",
        f'`hourline gaps` shows their hours; `hourline gaps --confirm {first.name} --reason "…"` relies on them as '
        "they are",
        {"records": lost, "gaps": [gap.name for gap in facts.gaps]},
    )


def find_not_recomputed(facts: SourceFacts, schedule: ScheduleSettings, now: datetime) -> Found | None:
    """Closed hours that nobody has recomputed in time."""
    waiting, bound = facts.waiting, facts.source.findings.not_recomputed
    if waiting is None:
        return None
    due = next_run(schedule, waiting.since) + schedule.deadline
    if now - due <= bound.after:
        return None
    return Found(
        "not_recomputed",
        waiting.since,
        now,
        f"{waiting.hours:,} closed hour(s) wait for a recompute, the first since {minute(waiting.since)}; by the "
        f"schedule, it was due at {minute(due)}",
        "`hourline recompute`; see whether Airflow runs: `hourline airflow up` starts it",
        {"hours": waiting.hours},
    )


def find_refused_lookups(facts: SourceFacts, now: datetime) -> Found | None:
    """Tables of lookups that vanished, or broke."""
    if not facts.refused_lookups:
        return None
    names = listed([one.name for one in facts.refused_lookups])
    since = min(one.since or now for one in facts.refused_lookups)
    return Found(
        "refused_lookup",
        min(since, now),
        now,
        f"the table of lookup {names} cannot be used, so the last good version is used: "
        + facts.refused_lookups[0].problem.rstrip("."),
        "mend the table; the next refresh reads it, and `hourline lookups --refresh` does so now",
        {"lookups": [one.name for one in facts.refused_lookups]},
    )


def find_changed_lookups(facts: SourceFacts, now: datetime) -> Found | None:
    """Lookups whose changed rows make more hours stale than is allowed."""
    if not facts.changed_lookups:
        return None
    first, names = facts.changed_lookups[0], listed([one.name for one in facts.changed_lookups])
    return Found(
        "changed_lookup",
        min(*(one.since for one in facts.changed_lookups), now),
        now,
        f"rows of lookup {names} have changed that events of {first.hours:,} published hours met, and {first.most:,} "
        "are allowed, so these hours stay stale",
        "see whether the table is right; `hourline recompute --from … --to …` then takes its rows, and a greater "
        f"`most_changed_hours` in lookups/{first.name}.yaml has the scheduled recompute take them",
        {"lookups": [one.name for one in facts.changed_lookups], "hours": first.hours},
    )


def find_failing_sinks(facts: SourceFacts, now: datetime) -> Found | None:
    """Sinks that results do not arrive at."""
    bound = facts.source.findings.failing_sink
    failing = [one for one in facts.failing_sinks if one.since is None or now - one.since > bound.after]
    if not failing:
        return None
    return Found(
        "failing_sink",
        min(*(one.since or now for one in failing), now),
        now,
        f"results do not arrive at sink {listed([one.sink for one in failing])}: {failing[0].reason.rstrip('.')}",
        "mend that; what has changed is then sent by itself, and `hourline up` starts a process that has ended",
        {"sinks": [one.sink for one in failing]},
    )


def find_end(facts: SpeedFacts, now: datetime) -> Found | None:
    """The speed layer has ended by itself."""
    if facts.ended is None or facts.runs:
        return None
    at = facts.ended.at or facts.seen or now
    why = facts.ended.reason or "its process was killed"
    return Found(
        "ended",
        at,
        max(at, now),
        f"the speed layer has ended, and nobody told it to: {why.rstrip('.')}",
        "`hourline up` starts it",
        {},
    )


def find_kafka_away(facts: SpeedFacts, bounds: SpeedFindings, now: datetime) -> Found | None:
    """Kafka does not answer."""
    away = facts.away
    if away is None or away.until or now - away.since <= bounds.kafka_away.after:
        return None
    return Found(
        "kafka_away",
        away.since,
        now,
        f"Kafka has been away for {roughly(now - away.since)}: {away.reason.rstrip('.')}",
        "bring Kafka back; the speed layer then goes on by itself",
        {"seconds": (now - away.since).total_seconds()},
    )


def find_unwritten_reports(facts: SpeedFacts, now: datetime) -> Found | None:
    """Reports of audits that could not be written."""
    if facts.unwritten is None:
        return None
    return Found(
        REPORTS,
        facts.unwritten.since,
        max(facts.unwritten.since, now),
        f"the reports of the audits cannot be written: {facts.unwritten.reason.rstrip('.')}; the hours are published",
        "mend that; the next `hourline recompute` or `hourline maintain` writes all of them",
        {},
    )


def next_run(schedule: ScheduleSettings, moment: datetime) -> datetime:
    """When the hourly run after ``moment`` is due, by the schedule's cron."""
    due: datetime = croniter(schedule.cron, moment.astimezone(ZoneInfo(schedule.timezone))).get_next(datetime)
    return due.astimezone(moment.tzinfo)
