"""The rows of a lookup at one version that are too many for memory. They stay in the files of the version.

The files are sorted by the key, in small groups of rows. DuckDB finds the rows of the keys of events, and skips groups
that can have none of few keys. What it finds becomes a LoadedLookup, so events meet the same rows as in memory.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.lookups.loaded import BYTES_OF_A_VERSION, MOMENT, LoadedLookup
from hourline_core.lookups.rows import schema_of
from hourline_core.lookups.version_files import scan_rows
from hourline_core.lookups.versions import naming_damage
from hourline_core.model import Lookup
from hourline_core.sql.literals import identifier, literal
from hourline_core.storage.data_files import local_files
from hourline_core.storage.opening import Table

_MOST_COMPARED = 2_000
"""The maximum number of keys that DuckDB compares with the statistics of each group of rows, to skip it. For more, it
reads all groups.
"""


class StoredLookup:
    """The rows of a lookup at one version, which stay in its files, as they are many."""

    size = BYTES_OF_A_VERSION
    """The memory that it takes, in bytes."""

    def __init__(self, lookup: Lookup, table: Table) -> None:
        self._lookup, self._table = lookup, table

    def load(
        self,
        connection: duckdb.DuckDBPyConnection,
        columns: Sequence[str],
        keys: Sequence[pa.ChunkedArray],
        times: pa.ChunkedArray | None = None,
    ) -> LoadedLookup:
        """The rows that have one of ``keys``, with ``columns``. With ``times``, they are valid between the first and
        the last one. Raises TableError if the version is no longer kept, or is damaged.
        """
        lookup, declared = self._lookup, schema_of(self._lookup)
        bounds = [name for name in (lookup.valid_from, lookup.valid_to) if name]
        read = pa.schema([of for of in declared if of.name in {*lookup.key, *bounds, *columns}])
        with closing(connection.cursor()) as own:
            own.execute("SET TimeZone = 'UTC'")
            own.execute(f"SET dynamic_or_filter_threshold = {_MOST_COMPARED}")
            own.register("declared", read.empty_table())
            types = {name: of for name, of, *_ in own.execute("DESCRIBE declared").fetchall()}
            own.register("asked", pa.table({f"k{place}": key for place, key in enumerate(keys)}))
            # DuckDB skips groups of rows if the keys are of the types in the files.
            asked = [f"TRY_CAST(k{place} AS {types[name]}) AS k{place}" for place, name in enumerate(lookup.key)]
            conditions = [f"l.{identifier(name)} = a.k{place}" for place, name in enumerate(lookup.key)]
            if times is not None and bounds:
                conditions += self._is_valid(times)
            with naming_damage(self._table, lookup):
                found = own.execute(f"""
                    SELECT l.* FROM ({self._select(own, types)}) l
                    SEMI JOIN (SELECT DISTINCT {", ".join(asked)} FROM asked) a ON {" AND ".join(conditions)}""")
                return LoadedLookup(lookup, found.to_arrow_table().cast(read))

    def _select(self, connection: duckdb.DuckDBPyConnection, types: Mapping[str, str]) -> str:
        """A query for all rows, with the columns in ``types``."""
        files = local_files(self._table)
        if files is None:
            connection.register("stored", scan_rows(self._table, self._lookup))
            return f"SELECT {', '.join(map(identifier, types))} FROM stored"
        there = set(pa.schema(self._table.schema().to_arrow()).names)
        # A column that was declared since is null.
        columns = [f"({identifier(of) if of in there else 'NULL'})::{types[of]} AS {identifier(of)}" for of in types]
        paths = ", ".join(map(literal, files.paths))
        return f"SELECT {', '.join(columns)} FROM read_parquet([{paths}], hive_partitioning = false)"

    def _is_valid(self, times: pa.ChunkedArray) -> list[str]:
        """Conditions that rows fulfil which are valid at one of ``times``."""
        span = pc.min_max(times.cast(MOMENT).cast(pa.int64())).as_py()
        bounds = ((self._lookup.valid_from, "<=", span["max"]), (self._lookup.valid_to, ">", span["min"]))
        return [
            f"coalesce(epoch_us(l.{identifier(name)}::TIMESTAMPTZ) {compared} {time}, true)"
            for name, compared, time in bounds
            if name and time is not None
        ]
