"""Into how many parts a micro-batch of a derived source is divided. Each is the work of one task."""

_ROWS_OF_PART = 100_000
"""With fewer events to read, a further task costs more than it saves: each of them reads all, and keeps its keys."""
_FINER = 4
_MOST_PARTS = 64


class Division:
    """How the micro-batches of one source are divided among ``tasks`` that run at once.

    A task holds the events of its part. What does not fit into memory goes to files, of which DuckDB still holds some
    pages. If these are too many, parts are made smaller. They grow again with each micro-batch that is read.
    """

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._most_rows: int | None = None
        """The maximum number of rows of a part. None: all have fitted so far."""

    def parts_of(self, rows: int) -> int:
        """The number of parts for a micro-batch that reads this number of ``rows``."""
        parts = max(1, min(self._tasks, rows // _ROWS_OF_PART))
        if self._most_rows is None:
            return parts
        return max(parts, min(-(-rows // self._most_rows), _MOST_PARTS))

    def refine(self, rows: int) -> bool:
        """Make parts smaller, since those of so many ``rows`` did not fit into memory. False: none can be."""
        parts = self.parts_of(rows)
        if parts >= min(rows, _MOST_PARTS):
            return False
        self._most_rows = max(1, rows // (parts * _FINER))
        return True

    def relax(self) -> None:
        """Let parts grow again, since all of a micro-batch did fit."""
        if self._most_rows is not None:
            self._most_rows *= 2
