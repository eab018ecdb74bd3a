"""Finds what a person should know, by facts and a moment alone."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from hourline_core.findings.clocks import find_in_clocks
from hourline_core.findings.facts import SourceFacts, SpeedFacts
from hourline_core.findings.found import with_severities
from hourline_core.findings.records import find_in_records
from hourline_core.findings.work import find_in_speed_layer, find_in_work
from hourline_core.ledger.finding import Finding
from hourline_core.model import Settings

_NO_RECORDS = {"topic_gone", "ended", "kafka_away", "registry_away"}

_FOLLOWS_FROM: Mapping[str, set[str]] = {
    "rejected": {"all_rejected"},
    "new_reason": {"all_rejected"},
    "silence": _NO_RECORDS,
    "overdue_hours": {"all_rejected", "held_clock", "silent_partition", "silence", *_NO_RECORDS},
}
"""By kind, those of which it is a mere consequence: where one of them is found, it is no news."""


def evaluate(settings: Settings, sources: Iterable[SourceFacts], speed: SpeedFacts, now: datetime) -> list[Finding]:
    """The findings at ``now`` (UTC): those that fail first, then by source and kind."""
    of_speed = with_severities(find_in_speed_layer(speed, settings.findings, now), None, settings.findings)
    found = [*of_speed]
    for facts in sources:
        looked = (*find_in_records(facts), *find_in_clocks(facts, speed.runs, now))
        looked += tuple(find_in_work(facts, settings.schedule, now))
        of_source = with_severities(looked, facts.source.name, facts.source.findings)
        kinds = {one.kind for one in (*of_speed, *of_source)}
        found += [one for one in of_source if kinds.isdisjoint(_FOLLOWS_FROM.get(one.kind, ()))]
    return sorted(found, key=lambda one: (not one.fails, one.source or "", one.kind))
