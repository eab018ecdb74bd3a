"""Findings about what records of a source become: rejected, late, repeated, taken by no branch, or quarantined."""

from collections.abc import Iterator

from hourline_core.findings.facts import Recent, SourceFacts
from hourline_core.findings.found import Found, minute, percent, reasons_text
from hourline_core.model.finding_bounds import ShareBound
from hourline_core.model.topics import topic_text

LEAST_REJECTED = 10
"""The minimum number of rejected records that are worth a finding about their share."""

ID_BYTES = 8
"""The size of an id."""


def find_in_records(facts: SourceFacts) -> Iterator[Found | None]:
    """What is found in the records of a source."""
    yield find_all_rejected(facts)
    yield find_rejected(facts)
    yield find_new_reason(facts)
    yield find_late(facts)
    yield find_duplicates(facts)
    yield find_untaken(facts)
    yield find_quarantine(facts)
    yield find_ids(facts)


def find_all_rejected(facts: SourceFacts) -> Found | None:
    """Nothing was accepted since some micro-batch, and enough was rejected."""
    run = facts.run
    if run is None or run.records < LEAST_REJECTED:
        return None
    return Found(
        "all_rejected",
        run.first,
        run.last,
        f"every record since {minute(run.first)} was rejected, {run.records:,} of them: {reasons_text(facts.reasons)}",
        _decode_or_mend(facts),
        {"rejected": run.records, "reasons": {one.words: one.records for one in facts.reasons}},
        _example(facts),
    )


def find_rejected(facts: SourceFacts) -> Found | None:
    """The share of rejected records."""
    recent = facts.recent
    if recent is None or recent.rejected < LEAST_REJECTED:
        return None
    bound, share = facts.source.findings.rejected, recent.rejected / max(recent.events, recent.rejected)
    if share <= bound.above:
        return None
    return _share(
        "rejected",
        recent,
        bound,
        share,
        f"{percent(share)} of the records were rejected, {recent.rejected:,} of {recent.events:,} "
        f"(expected: at most {percent(bound.above)}): {reasons_text(facts.reasons)}",
        _decode_or_mend(facts),
        {"rejected": recent.rejected, "events": recent.events}
        | {"reasons": {one.words: one.records for one in facts.reasons}},
        _example(facts),
    )


def find_new_reason(facts: SourceFacts) -> Found | None:
    """Records are rejected for a reason that is new, while the source has been read for a day."""
    begun = facts.silence.begun if facts.silence else None
    new = [one for one in facts.new_reasons if begun and one.arrived and (one.arrived - begun).days >= 1]
    if not new:
        return None
    times = [one.arrived for one in new if one.arrived]
    return Found(
        "new_reason",
        min(times),
        max(times),
        f"records are rejected for a reason that was not seen before: {reasons_text(new)}",
        _decode_or_mend(facts),
        {"reasons": {one.words: one.records for one in new}},
        new[0].example,
    )


def find_late(facts: SourceFacts) -> Found | None:
    """The share of late events."""
    recent, bound = facts.recent, facts.source.findings.late
    if recent is None or recent.accepted < LEAST_REJECTED or (share := recent.late / recent.accepted) <= bound.above:
        return None
    return _share(
        "late",
        recent,
        bound,
        share,
        f"{percent(share)} of the accepted events came after their hour had closed, {recent.late:,} of "
        f"{recent.accepted:,} (expected: at most {percent(bound.above)})",
        _advise_grace(facts),
        {"late": recent.late, "accepted": recent.accepted},
    )


def _advise_grace(facts: SourceFacts) -> str:
    if facts.source.snapshot:  # Its rows are late since events of the table were.
        table = facts.source.snapshot.of
        return f"`hourline advise grace {table}` shows which `grace` to declare in source '{table}'"
    grace = f"`hourline advise grace {facts.source.name}` shows which `grace` to declare in {facts.place}"
    if facts.source.reads_files:  # A file of an earlier day that arrives once is no reason for a longer grace.
        return (
            f"if earlier files arrived behind later ones, `hourline recompute` counts their events; otherwise, {grace}"
        )
    return grace


def find_duplicates(facts: SourceFacts) -> Found | None:
    """The share of duplicates."""
    recent, bound = facts.recent, facts.source.findings.duplicates
    if recent is None or recent.duplicates < LEAST_REJECTED or facts.source.takes_back:
        return None
    share = recent.duplicates / max(recent.accepted + recent.duplicates, 1)
    if share <= bound.above:
        return None
    return _share(
        "duplicates",
        recent,
        bound,
        share,
        f"{percent(share)} of the events are duplicates, {recent.duplicates:,} of "
        f"{recent.accepted + recent.duplicates:,} (expected: at most {percent(bound.above)})",
        f"look at the producer, and at the `id` in {facts.place}: an id that is not unique makes events duplicates",
        {"duplicates": recent.duplicates, "accepted": recent.accepted},
    )


def find_untaken(facts: SourceFacts) -> Found | None:
    """Records that no branch takes."""
    recent = facts.recent
    if recent is None or recent.taken_by_none <= 0:
        return None
    return Found(
        "taken_by_none",
        recent.first,
        recent.last,
        f"no branch takes {recent.taken_by_none:,} record(s) of {topic_text(facts.source.topic)}; they are counted, "
        "and not archived",
        f"`hourline graph` shows the branches; declare one with `branch: otherwise` beside {facts.place}",
        {"taken_by_none": recent.taken_by_none},
    )


def find_quarantine(facts: SourceFacts) -> Found | None:
    """Events that a class fails for."""
    known = facts.quarantine
    if known is None:
        return None
    return Found(
        "quarantine",
        known.first,
        max(known.first, facts.recent.last if facts.recent else known.first),
        f"a class fails for {known.events:,} event(s), so its metric does not count them: {known.message}",
        f"mend {known.file}, restart the speed layer, and run `hourline recompute`",
        {"events": known.events},
    )


def find_ids(facts: SourceFacts) -> Found | None:
    """More ids than expected."""
    bound, needed = facts.source.findings.remembered_ids, facts.ids * ID_BYTES
    if needed <= bound.bytes or facts.recent is None:
        return None
    return Found(
        "remembered_ids",
        facts.recent.first,
        facts.recent.last,
        f"the ids of {facts.ids:,} events within the horizon take {needed / (1 << 30):,.1f} GiB (expected: at most "
        f"{bound.above}); the speed layer keeps in files of the workspace what is beyond `speed.ids_in_memory`",
        f"declare a higher `findings.remembered_ids` in {facts.place} if the disk has room, or a shorter `id_horizon`: "
        "later duplicates then count until their hour is recomputed",
        {"bytes": needed, "events": facts.ids},
    )


def _share(
    kind: str,
    recent: Recent,
    bound: ShareBound,
    share: float,
    sentence: str,
    remedy: str,
    numbers: dict[str, object],
    example: str | None = None,
) -> Found:
    return Found(
        kind, recent.first, recent.last, sentence, remedy, {"share": share, "above": bound.above, **numbers}, example
    )


def _example(facts: SourceFacts) -> str | None:
    return facts.reasons[0].example if facts.reasons else None


def _decode_or_mend(facts: SourceFacts) -> str:
    return (
        f"mend the producer; or correct {facts.place}, restart the speed layer and run `hourline recompute`, which "
        f'decodes the records anew; `hourline query "FROM rejected_{facts.source.name} LIMIT 10"` shows some'
    )
