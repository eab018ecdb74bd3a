"""The open tables of a process, kept from one read to the next.

Opening a table reads its log since the last checkpoint, which takes ten times as long as reading the commits since the
last read. A kept handle is used again only if the file of the commit that it is at has not changed. Otherwise the table
was replaced, or its log was shortened, and it is opened again. A kept table gets the same checks as one that is opened.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from deltalake.exceptions import DeltaError
from pyarrow.fs import FileType

from hourline_core.errors import TableError
from hourline_core.storage.commit_log import commit_file
from hourline_core.storage.data_files import file_system
from hourline_core.storage.opening import Table, exists, open_table, refuse_damaged, update

_MOST = 1024
"""The maximum number of tables that are kept."""

_Place = tuple[str, frozenset[tuple[str, str]]]
"""The address of a table, and the options to reach it."""
_Stamp = tuple[int, int]
"""When a file was written, and its size."""


class _KeptTables:
    """The tables that earlier reads of this process have kept, the latest last. Threads may share it."""

    def __init__(self) -> None:
        self._tables: OrderedDict[_Place, tuple[Table, _Stamp]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, place: _Place) -> tuple[Table, _Stamp] | None:
        """Take the table of a place out, so that nobody else gets it until it is put back. None: there is none."""
        with self._lock:
            return self._tables.pop(place, None)

    def put(self, tables: Mapping[_Place, tuple[Table, _Stamp]]) -> None:
        """Keep these. If there are more than _MOST, the oldest are dropped."""
        with self._lock:
            self._tables.update(tables)
            while len(self._tables) > _MOST:
                self._tables.popitem(last=False)


_KEPT = _KeptTables()


class OpenTables:
    """A context manager that keeps the tables for the next read at the end of the block. Each thread has its own,
    and no handle is in two of them.
    """

    def __init__(self, storage_options: Mapping[str, str]) -> None:
        self._options = storage_options
        self._opened: dict[_Place, Table] = {}

    def open(self, uri: str, version: int | None = None) -> Table:
        """The table at ``uri``, at ``version`` or its newest. Raises TableError as ``open_table`` does."""
        return self._remember(uri, self._reuse(uri, version) or open_table(uri, self._options, version))

    def find(self, uri: str, version: int | None = None) -> Table | None:
        """Like ``open``, or None if the table does not exist."""
        table = self._reuse(uri, version)
        if table is None and not exists(uri, self._options):
            return None
        return self._remember(uri, table or open_table(uri, self._options, version))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return  # one of them may be the damaged one
        _KEPT.put({place: (table, stamp) for place, table in self._opened.items() if (stamp := _stamp(table))})

    def _place(self, uri: str) -> _Place:
        return uri, frozenset(self._options.items())

    def _remember(self, uri: str, table: Table) -> Table:
        self._opened[self._place(uri)] = table
        return table

    def _reuse(self, uri: str, version: int | None) -> Table | None:
        kept = _KEPT.take(self._place(uri))
        if kept is None or _stamp(kept[0]) != kept[1]:
            return None
        table = kept[0]
        try:
            newer = version is None or (table.version() or 0) < version
            if newer and file_system(table).get_file_info(commit_file(table.version() + 1)).type == FileType.File:
                update(table)
            if version not in (None, table.version()):
                return None
            refuse_damaged(table, uri)
            # Commits before the last checkpoint may have been deleted. A handle that needs them fails here.
            table.transaction_version("")
        except (TableError, DeltaError):
            return None  # Opening it again reports what is wrong.
        return table


def _stamp(table: Table) -> _Stamp | None:
    """The stamp of the file of the commit that ``table`` is at. None: the log no longer has it."""
    file = file_system(table).get_file_info(commit_file(table.version()))
    return (file.mtime_ns, file.size) if file.type == FileType.File else None
