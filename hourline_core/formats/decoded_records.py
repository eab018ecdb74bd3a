"""What a decoder makes of a batch of records."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """What a batch of values holds, in their order."""

    columns: dict[str, pa.Array]
    """By the name of each field. Null where the record lacks the field, was refused, or has no value."""

    reasons: pa.Array
    """Why each value was refused (string). Null: it was decoded, or it is null or empty."""
