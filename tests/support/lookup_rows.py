"""What a refresh takes of a table that a test has in memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from hourline_core.lookups.rows import LookupRows, take_rows
from hourline_core.model import Lookup


def take(lookup: Lookup, *parts: pa.Table) -> LookupRows:
    """The rows of ``parts``. Raises TableError as ``take_rows`` does."""
    with TemporaryDirectory() as workspace:
        return take_rows(lookup, parts, Path(workspace))
