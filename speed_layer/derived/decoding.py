"""How tasks decode archived events of an input anew that another declaration of it has made."""

from collections.abc import Sequence
from dataclasses import dataclass

from hourline_core.errors import SourceError
from hourline_core.ledger.decode_records import needs_no_spark
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.model import Source
from hourline_core.model.decoding import Decoding, decides_otherwise


@dataclass(frozen=True)
class DecodedAnew:
    """Archived events that other declarations of their source have made, with other fields."""

    source: Source
    before: Sequence[Decoding]
    """The decodings of these declarations."""
    up_to: int
    """The last sequence that may have some."""
    keeps_rejected: bool
    """Whether those that are rejected now are read all the same. They were read before, so others have met them."""


def plan_decoding(derived: Source, source: Source, decodings: ArchiveDecodings) -> DecodedAnew | None:
    """How tasks decode the events of other declarations, as long as these have other fields alone. Another event time
    would be in other hours. Raises SourceError.
    """
    others = decodings.others
    if not others:
        return None
    if (
        not all(one.raw for one in others)
        or any(decides_otherwise(one, decodings.now) for one in others)
        or not needs_no_spark(source, others)
    ):
        changes = "; ".join(decodings.describe_changes())
        raise SourceError(
            f"source '{derived.name}' cannot read '{source.name}', whose archive has events that another declaration "
            f"has made ({changes}): declare '{source.name}' as it was when they were archived, or declare it under "
            "another name, and read that"
        )
    ends = [last for _, last in decodings.sequences_of([one.hash for one in others]) if last is not None]
    return DecodedAnew(source, others, max(ends, default=0), keeps_rejected=derived.takes_back)
