"""Decodes records that are one row of CSV each: bytes become typed Arrow columns, or a reason for each refused one."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.cells import CellColumns
from hourline_core.formats.csv.grammar import RowGrammar
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.record_texts import record_texts
from hourline_core.model.csv_format import CsvFormat
from hourline_core.model.fields import Field


class CsvDecoder:
    """Decodes rows of ``format`` with ``fields``, each of which is one of its columns. It can be pickled."""

    def __init__(self, format: CsvFormat, fields: Mapping[str, Field]) -> None:
        self._format, self._fields = format, dict(fields)
        self._grammar = RowGrammar(format.columns, format.delimiter)
        self._cells = CellColumns(self._fields)
        self._read = [name for name in format.columns if name in self._cells.keys]

    def __reduce__(self) -> tuple[type["CsvDecoder"], tuple[CsvFormat, dict[str, Field]]]:
        return CsvDecoder, (self._format, self._fields)

    @property
    def fault(self) -> None:
        """None: a declaration whose fields are no columns is refused when it is loaded."""

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRecords:
        """Decode binary ``values``, each alone. See ``Decoder``."""
        texts, reasons = record_texts(values)
        are_rows = self._grammar.are_rows(texts)
        for place in pc.indices_nonzero(pc.invert(are_rows)).to_pylist():
            reasons[place] = self._grammar.explain(texts[place].as_py())
        cells = self._grammar.cells(texts.filter(are_rows), self._read)
        if (null_text := self._format.null_text) is not None:
            cells = {name: pc.if_else(pc.equal(column, null_text), None, column) for name, column in cells.items()}
        return self._cells.decode(_spread(cells, are_rows), reasons, len(texts))


def _spread(cells: dict[str, pa.Array], are_rows: pa.Array) -> dict[str, pa.Array]:
    """``cells`` of the rows, with null in the place of each record that is none."""
    positions = pc.subtract(pc.cumulative_sum(pc.fill_null(are_rows, False).cast(pa.int64())), 1)
    take = pc.if_else(are_rows, positions, None)
    return {name: column.take(take) for name, column in cells.items()} if take.null_count else cells
