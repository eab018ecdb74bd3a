"""Findings about the clock of a source: what holds it, who is silent, and which hours should have closed by now."""

from collections.abc import Iterator
from datetime import datetime

from hourline_core.findings.facts import PartitionFacts, SourceFacts
from hourline_core.findings.found import Found, listed, minute, roughly
from hourline_core.ledger.source_clock import LEAP
from hourline_core.model.hours import HOUR, time_before
from hourline_core.model.times import duration_text
from hourline_core.model.windows import HOURLY


def find_in_clocks(facts: SourceFacts, runs: bool, now: datetime) -> Iterator[Found | None]:
    """What is found in the clocks of a source at ``now`` (UTC). ``runs`` says whether the speed layer does."""
    yield find_held_clock(facts)
    yield find_silent_partitions(facts)
    yield find_silence(facts, runs, now)
    yield find_overdue_hours(facts, now)


def find_held_clock(facts: SourceFacts) -> Found | None:
    """A partition is behind others, and its records do not move the clock."""
    clock, bound = facts.clock, facts.source.findings.held_clock
    if clock is None or facts.source.clock == "wall":
        return None
    ahead = [one for one in facts.partitions if one.clock and one.clock - clock.time > LEAP]
    behind = [one for one in facts.partitions if one.clock and one.clock <= clock.time]
    holding = [one for one in behind if one.silence.last - clock.since > bound.after]
    if not ahead or not holding:
        return None
    names = listed([one.name for one in holding])
    return Found(
        "held_clock",
        clock.since,
        max(one.silence.last for one in holding),
        f"the clock stands at {minute(clock.time)} since {minute(clock.since)}, held by {names}, whose records do not "
        "move it: they are rejected, or behind; no hour closes",
        f"`hourline status --partitions` shows the clocks; mend what feeds {names}",
        {"clock": clock.time, "partitions": [one.name for one in holding]},
    )


def find_silent_partitions(facts: SourceFacts) -> Found | None:
    """Partitions without records, while others have some."""
    silent = _silent(facts)
    if not silent:
        return None
    last = min(one.silence.last for one in silent)
    holds = facts.source.idle is None
    verb = "has" if len(silent) == 1 else "have"
    what = f"{listed([one.name for one in silent])} {verb} had no record since {minute(last)}, while others have"
    return Found(
        "silent_partition" if holds else "idle_partition",
        last,
        max(one.silence.last for one in facts.partitions),
        f"{what}; the source declares no `idle`, so no hour closes until the next record" if holds else what,
        f"look at the producer; if such a silence is usual, declare `idle: 15m` in {facts.place}"
        if holds
        else "look at the producer, and at the keys of its records",
        {"partitions": [one.name for one in silent]},
    )


def find_silence(facts: SourceFacts, runs: bool, now: datetime) -> Found | None:
    """No record of the source for longer than usual."""
    silence, bound = facts.silence, facts.source.findings.silence
    if silence is None or not silence.is_known() or not silence.exceeds(bound.after, now):
        return None
    usual = f"usually at most {roughly(silence.usual)}" if silence.usual else "usually less than a minute"
    return Found(
        "silence",
        silence.last,
        now,
        f"no record has been read for {roughly(now - silence.last)} ({usual})"
        + ("" if runs else ", and the speed layer does not run"),
        "look at the producer" if runs else "`hourline up` starts the speed layer",
        {"seconds": (now - silence.last).total_seconds(), "usual_seconds": silence.usual.total_seconds()},
    )


def find_overdue_hours(facts: SourceFacts, now: datetime) -> Found | None:
    """Hours that should have closed by now: wall time beside event time."""
    clock, silence, bound = facts.clock, facts.silence, facts.source.findings.overdue_hours
    known = clock and clock.delay is not None and silence and silence.is_known()
    if not known or clock is None or clock.delay is None or silence is None or facts.source.clock == "wall":
        return None
    grace = facts.source.grace
    first = HOURLY.assign(time_before(clock.time, grace))
    due = first + HOURLY.complete_after(grace) + clock.delay + 2 * silence.usual
    if now - due <= bound.after:
        return None
    hours = (now - bound.after - due) // HOUR + 1
    return Found(
        "overdue_hours",
        due,
        now,
        f"the hour {minute(first)} should have closed by {minute(due)} (its end, the grace of "
        f"{duration_text(grace)}, and the usual delay and silence), and the clock stands at {minute(clock.time)} since "
        f"{minute(clock.since)}; {hours:,} hour(s) are overdue",
        "`hourline status --partitions` shows the lag and the clock of each partition",
        {"hours": hours, "clock": clock.time},
    )


def _silent(facts: SourceFacts) -> list[PartitionFacts]:
    """The partitions that were silent up to the source's last record, and are behind others."""
    findings, idle = facts.source.findings, facts.source.idle
    # The inputs may be idle, which the derived source is not told. They have findings of their own.
    is_told_by_inputs = facts.source.takes_back and idle is None
    if facts.source.clock == "wall" or is_told_by_inputs or not facts.partitions:
        return []
    after = (findings.silent_partition if idle is None else findings.idle_partition).after
    last = max(one.silence.last for one in facts.partitions)
    highest = max((one.clock for one in facts.partitions if one.clock), default=None)
    return [
        one
        for one in facts.partitions
        if one.clock
        and highest
        and one.clock < highest
        and one.silence.exceeds(after, last)
        and (idle is None or one.silence.is_known())
    ]
