"""What a sink has sent last, of each key: a DuckDB file in the workspace.

By it, a sink sends what has changed while it was away, however long that was. It is as large as the results.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hourline_core.error_causes import first_cause
from hourline_core.errors import SinkError
from hourline_core.ledger.layout import TIMESTAMP
from serving_layer.sinks.result import Result
from serving_layer.sinks.rows import ROWS_AT_ONCE, Span

_MEMORY = "256MB"
"""What does not fit goes to files beside the database."""
_TABLES = """
    CREATE TABLE IF NOT EXISTS sent (
        key VARCHAR, window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, digest VARCHAR, revision BIGINT
    );
    CREATE TABLE IF NOT EXISTS noted (name VARCHAR, value VARCHAR);"""
_PLACE = "place"
"""Under this name, it is noted where results are sent."""
_SENT = pa.schema(
    {"key": pa.string(), "window_start": TIMESTAMP, "window_end": TIMESTAMP, "digest": pa.string(), "gone": pa.bool_()}
)
_SPANS = pa.schema({"span_start": TIMESTAMP, "span_end": TIMESTAMP})


class SentResults:
    """The newest revision of each key that was sent. For one thread.

    After a ``duckdb.Error``, such as of a full disk, this object is of no use. The file is.
    """

    def __init__(self, file: Path) -> None:
        """Open or create ``file``. Raises SinkError if it cannot be read."""
        file.parent.mkdir(parents=True, exist_ok=True)
        config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": _MEMORY, "threads": 1}
        try:
            self._database = duckdb.connect(str(file), config=config | {"temp_directory": f"{file}.tmp"})
            self._database.execute("SET TimeZone = 'UTC'")
            self._database.execute(_TABLES)
        except duckdb.Error as error:
            raise SinkError(
                f"{file} cannot be read: {first_cause([str(error)])}; if it is broken, delete it: the sink then reads "
                "again what its topic has, and another target gets all results again"
            ) from error
        self._schema = ""
        # A writer of its own, since the reader of what has changed reads on while parts of it are noted as sent.
        self._writer = self._database.cursor()

    def find_changes(
        self, rows: pa.RecordBatchReader, spans: Sequence[Span] | None, kept: Sequence[Span]
    ) -> Iterator[list[Result]]:
        """How ``rows``, all results of the windows that share time with ``spans`` (None: of all windows), differ from
        what was sent, by time, in lists of up to 10,000. A result that is not among them is gone, unless its window
        shares time with one of ``kept``.
        """
        self._database.execute("DROP TABLE IF EXISTS _changed")
        self._database.register("_rows", rows)
        self._database.execute(
            "CREATE OR REPLACE TEMP TABLE _now AS SELECT *, md5(value || ?) AS digest FROM _rows", [self._schema]
        )
        self._database.unregister("_rows")
        self._keep("_spans", spans or [])
        self._keep("_kept", kept)
        among = "true" if spans is None else _shares("_spans")
        self._database.execute(f"""
            CREATE TEMP TABLE _changed AS
            WITH before AS (FROM sent WHERE {among})
            SELECT n.* FROM _now n LEFT JOIN before b USING (key) WHERE b.digest IS DISTINCT FROM n.digest
            UNION ALL BY NAME
            SELECT key, window_start, window_end FROM before ANTI JOIN _now USING (key) WHERE NOT {_shares("_kept")}""")
        self._database.execute("DROP TABLE _now")
        # What is gone comes first: another key in JSON may be the same one to the target, such as one whose dimensions
        # have another order.
        found = self._database.execute("""
            SELECT key, window_start, window_end, value, digest FROM _changed
            ORDER BY window_start, value IS NOT NULL, key""").to_arrow_reader(ROWS_AT_ONCE)
        for batch in found:
            yield [
                Result(key, (start, end), value, digest)
                for key, start, end, value, digest in zip(*map(_values, batch.columns), strict=True)
            ]

    def keep(self, results: Iterable[Result], revision: int, **noted: Any) -> None:
        """Note that these were sent with this revision, and ``noted``, in one step. Of a key that occurs several times,
        the last one counts.
        """
        rows = [
            {
                "key": one.key,
                "window_start": one.window[0],
                "window_end": one.window[1],
                "digest": one.digest,
                "gone": one.value is None and one.digest is None,
            }
            for one in {one.key: one for one in results}.values()
        ]
        self._writer.begin()
        try:
            if rows:
                self._writer.register("_kept_rows", pa.Table.from_pylist(rows, _SENT))
                bounds = "(SELECT min(window_start) FROM _kept_rows) AND (SELECT max(window_start) FROM _kept_rows)"
                self._writer.execute(
                    f"DELETE FROM sent WHERE window_start BETWEEN {bounds} AND key IN (SELECT key FROM _kept_rows)"
                )
                self._writer.execute(
                    "INSERT INTO sent SELECT key, window_start, window_end, digest, ? FROM _kept_rows WHERE NOT gone",
                    [revision],
                )
                self._writer.unregister("_kept_rows")
            self._note({**noted, "revision": max(revision, self.revision)})
            self._writer.commit()
        except BaseException:
            with suppress(duckdb.Error):  # A commit that has failed has ended the transaction.
                self._writer.rollback()
            raise

    def begin(self, place: str, schema: str = "") -> None:
        """Say where results are sent, and what names the schema of their values. If it was another place before,
        nothing was sent yet. A value of another schema differs: the newest one may read the same JSON as null.
        """
        self._schema = schema
        if self.noted(_PLACE) != place:
            self.forget(place)

    def forget(self, place: str) -> None:
        """Begin anew: nothing was sent to ``place``. The revision stays, since it only rises."""
        self._writer.begin()
        self._writer.execute("DELETE FROM sent")
        self._writer.execute("DELETE FROM noted WHERE name <> 'revision'")
        self._note({_PLACE: place})
        self._writer.commit()

    def noted(self, name: str) -> Any:
        """What was noted as ``name`` with the results. None: nothing."""
        row = self._writer.execute("SELECT value FROM noted WHERE name = ?", [name]).fetchone()
        return None if row is None else json.loads(row[0])

    @property
    def place(self) -> str:
        """Where results are sent."""
        return str(self.noted(_PLACE))

    @property
    def revision(self) -> int:
        """The highest revision that was sent. 0: none."""
        return int(self.noted("revision") or 0)

    @property
    def revisions(self) -> tuple[int, int]:
        """The number of results that are there, and the sum of their revisions."""
        row = self._writer.execute("SELECT count(*), coalesce(sum(revision), 0) FROM sent").fetchone()
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
        self._database.close()

    def _note(self, noted: dict[str, Any]) -> None:
        for name, value in noted.items():
            self._writer.execute("DELETE FROM noted WHERE name = ?", [name])
            self._writer.execute("INSERT INTO noted VALUES (?, ?)", [name, json.dumps(value)])

    def _keep(self, name: str, spans: Sequence[Span]) -> None:
        rows = [{"span_start": span.start, "span_end": span.end} for span in spans]
        self._database.register("_given", pa.Table.from_pylist(rows, _SPANS))
        self._database.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM _given")
        self._database.unregister("_given")


def _values(column: pa.Array) -> list[Any]:
    """The values of a column. Equal times are made once, since that takes longer than sending a result."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    encoded = column.dictionary_encode()
    times = encoded.dictionary.to_pylist()
    return [times[which] for which in encoded.indices.to_pylist()]


def _shares(spans: str) -> str:
    return f"EXISTS (FROM {spans} s WHERE s.span_start < window_end AND s.span_end > window_start)"
