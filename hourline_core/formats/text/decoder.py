"""Decodes records that are text by a regular expression: bytes become typed Arrow columns, or a reason.

The expressions are those of RE2, whose time grows with the length of a text and with that of the expression alone: no
text holds the stream up.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.cells import CellColumns
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.record_texts import record_texts
from hourline_core.model.fields import Field
from hourline_core.model.text_format import TextFormat, groups_of, whole

_LONGEST = 80


class TextDecoder:
    """Decodes texts of ``format`` with ``fields``, each of which is a group of its pattern. It can be pickled."""

    def __init__(self, format: TextFormat, fields: Mapping[str, Field]) -> None:
        self._format, self._fields = format, dict(fields)
        self._pattern = whole(format.pattern)
        self._cells = CellColumns(self._fields)
        self._read = [name for name in groups_of(format.pattern) if name in self._cells.keys]

    def __reduce__(self) -> tuple[type["TextDecoder"], tuple[TextFormat, dict[str, Field]]]:
        return TextDecoder, (self._format, self._fields)

    @property
    def fault(self) -> None:
        """None: a declaration whose fields are no groups is refused when it is loaded."""

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRecords:
        """Decode binary ``values``, each alone. See ``Decoder``.

        RE2 does not tell an empty group from one that took no part, so both are null.
        """
        texts, reasons = record_texts(values)
        found = pc.extract_regex(texts, self._pattern)
        for place in pc.indices_nonzero(pc.and_(texts.is_valid(), found.is_null())).to_pylist():
            reasons[place] = f'got "{_shorten(texts[place].as_py())}", want a text that its pattern matches'
        cells = {}
        for name in self._read:
            group = pc.struct_field(found, name)
            cells[name] = pc.if_else(pc.equal(group, ""), None, group)
        return self._cells.decode(cells, reasons, len(texts))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
