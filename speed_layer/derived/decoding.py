"""How tasks decode archived events of an input anew that another declaration of it has made."""

from collections.abc import Sequence
from dataclasses import dataclass

from hourline_core.errors import SourceError
from hourline_core.ledger.decode_records import needs_no_spark
from hourline_core.ledger.decodings import ArchiveDecodings, UsedDecoding
from hourline_core.ledger.open_progress import find_progress
from hourline_core.model import Project, Source
from hourline_core.model.decoding import Decoding, decides_otherwise
from speed_layer.derived.inputs import Input


@dataclass(frozen=True)
class DecodedAnew:
    """Archived events that other declarations of their source have made, with other fields."""

    source: Source
    before: Sequence[Decoding]
    """The decodings of these declarations."""
    up_to: int
    """The last sequence that may have some."""
    kept_up_to: int
    """Up to this sequence, those that are rejected now are read all the same: others have met them. 0: none are."""


def plan_decoding(project: Project, derived: Source, read: Input) -> DecodedAnew | None:
    """How tasks decode the events of other declarations of an input, as long as these have other fields alone. Another
    event time would be in other hours. Raises SourceError.
    """
    decodings = ArchiveDecodings.of(read.events, read.source)
    others = decodings.others
    if not others:
        return None
    refuse_unreadable(derived, read)
    ends = [last for _, last in decodings.sequences_of([one.hash for one in others]) if last is not None]
    kept_up_to = _read_before(project, derived, read, decodings.used) if derived.takes_back else 0
    return DecodedAnew(read.source, others, max(ends, default=0), kept_up_to)


def refuse_unreadable(derived: Source, read: Input) -> None:
    """Raise SourceError if an input of ``derived`` has events that cannot be decoded as it is declared now."""
    source, decodings = read.source, ArchiveDecodings.of(read.events, read.source)
    others = decodings.others
    if others and (
        not all(one.raw for one in others)
        or any(decides_otherwise(one, decodings.now) for one in others)
        or not needs_no_spark(source, others)
    ):
        changes = "; ".join(decodings.describe_changes())
        raise SourceError(
            f"source '{derived.name}' cannot read '{source.name}', whose archive has events that another declaration "
            f"has made ({changes}): declare '{source.name}' as it was when they were archived, or "
            + (
                f"let all of its events be made anew: `hourline reset {source.name}`"
                if source.is_derived
                else "declare it under another name, and read that"
            )
        )


def _read_before(project: Project, derived: Source, read: Input, used: Sequence[UsedDecoding]) -> int:
    """The sequence up to which ``derived`` had read an input when its declaration of now began. Raises SourceError if
    it began with a declaration between the first one and that of now. It is not known then which of the events that are
    rejected now it has read.
    """
    progress = find_progress(project, derived)
    began = progress.first_read_at() if progress else None
    if progress is None or began is None:
        return 0
    first = max((place for place, one in enumerate(used) if one.since is None or one.since <= began), default=0)
    if 0 < first < len(used) - 1:
        raise SourceError(
            f"source '{read.source.name}' was declared in another way twice since its first event, and source "
            f"'{derived.name}' began in between; let all of its events be made anew: `hourline reset {derived.name}`"
        )
    since = used[-1].since
    sequence = progress.last_started_before(since) if first == 0 and since else None
    if sequence is None:
        return 0
    return progress.readings([read.topic_id], sequence)[read.topic_id].next_offsets.get(0, 1) - 1
