"""The hours that decoding anew changes, and those that must be published at once."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import duckdb
import pyarrow as pa

from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.decodings import ArchiveDecodings, LostFields
from hourline_core.ledger.layout import FROM_HOUR, FROM_SEQUENCE, Layout
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import DeclaredMetric, Metric, Project, Source
from hourline_core.model.identity import words_of
from hourline_core.sql.progress import arrived_hours_sql
from hourline_core.storage.opening import exists, open_table


@dataclass(frozen=True)
class ChangedHours:
    """What the records of one source became that today's declaration has decoded anew, up to a sequence."""

    decodings: ArchiveDecodings
    moves: Collection[tuple[datetime | None, datetime | None, int, int]] = ()
    """The hour of the archive (null: none), the hour of now (null: none), the number of events, and the last sequence
    of those whose two hours differ.
    """
    without_bytes: Collection[tuple[frozenset[str], Collection[datetime]]] = ()
    """Fields, in lower case, that are read in another way now, and the hours (UTC) with events whose records' bytes
    were not kept then. Hours of which a reset has brought all of them are not among these.
    """

    @property
    def entered(self) -> dict[datetime, int]:
        """By hour (UTC), the number of events that it gets, and had not in the archive."""
        return _add_up((hour, events) for _, hour, events, _ in self.moves if hour)

    def changed_after(self, hour: datetime, cutoff: int) -> bool:
        """Whether ``hour`` gets an event of a sequence above ``cutoff`` that it had not in the archive, or loses one.
        The speed layer has no tile in the hour that says so.
        """
        return self._last_changed.get(hour, NO_CUTOFF) > cutoff

    @cached_property
    def _last_changed(self) -> dict[datetime, int]:
        """By hour (UTC), the last sequence of the events that it gets, and had not in the archive, or loses."""
        last: dict[datetime, int] = {}
        for before, now, _, sequence in self.moves:
            for hour in filter(None, (before, now)):
                last[hour] = max(sequence, last.get(hour, NO_CUTOFF))
        return last

    @property
    def left(self) -> dict[datetime, int]:
        """By hour (UTC), the number of events that it had in the archive, and loses."""
        return _add_up((hour, events) for hour, _, events, _ in self.moves if hour)

    def lack_bytes(self, source: Source, metric: Metric, hour: datetime) -> bool:
        """Whether ``metric`` cannot be computed for ``hour``: it uses a field that is read in another way now, and the
        bytes of the hour's records were not kept.
        """
        words = words_of(source, metric)
        return any(fields & words and hour in hours for fields, hours in self.without_bytes)

    def to_publish_at_once(
        self, declared: DeclaredMetric, snapshot: Snapshot, hours: Iterable[datetime]
    ) -> set[datetime]:
        """The hours (UTC) that are published with ``hours`` at once, also those of them: events move between two of
        them as long as one of both is not published with these events where they are now. Until both are, the two count
        them where they were. Hours that no move connects with one of ``hours`` are not among them.
        """
        covered = snapshot.coverage.of(declared.metric.name, declared.declaration).covered(
            {hour for move in self.moves for hour in move[:2] if hour}
        )

        def is_published(hour: datetime, sequence: int) -> bool:
            known = covered.get(hour)
            return known is not None and known.decoding == self.decodings.now.hash and known.cutoff >= sequence

        pairs = [
            (before, now)
            for before, now, _, last in self.moves
            if before and now and not (is_published(before, last) and is_published(now, last))
        ]
        return _connected(pairs, hours)


def read_changed_hours(
    connection: duckdb.DuckDBPyConnection, project: Project, source: Source, up_to: int
) -> ChangedHours | None:
    """What decoding anew changes in the hours of ``source``, as far as it is done up to the sequence ``up_to``. None:
    its records were all decoded as today. Raises TableError.
    """
    layout = Layout.of(project)
    decodings = ArchiveDecodings.read(layout, source)
    if not decodings.others:
        return None
    uri = layout.decoded(source, decodings.now.hash)
    without_bytes = [
        (lost.fields, {hour for (hour,) in connection.execute(_arrived_sql(source, lost, up_to)).fetchall()})
        for lost in decodings.lost_fields
        if lost.fields
    ]
    if not exists(uri, layout.storage_options):
        return ChangedHours(decodings, without_bytes=without_bytes)
    decoded = open_table(uri, layout.storage_options)
    connection.register("_decoded", decoded.to_pyarrow_dataset())
    if without_bytes and FROM_SEQUENCE in pa.schema(decoded.schema().to_arrow()).names:
        without_bytes = [
            (lost.fields, hours - _hours_with_bytes(connection, layout, source, lost, up_to))
            for (_, hours), lost in zip(
                without_bytes, filter(lambda lost: lost.fields, decodings.lost_fields), strict=True
            )
        ]
    moves = connection.execute(
        f"""
        SELECT {FROM_HOUR}, hour, count(*), max(sequence) FROM _decoded
        WHERE sequence <= ? AND hour IS DISTINCT FROM {FROM_HOUR} GROUP BY ALL""",
        [up_to],
    ).fetchall()
    connection.unregister("_decoded")
    return ChangedHours(decodings, moves, without_bytes)


def _hours_with_bytes(
    connection: duckdb.DuckDBPyConnection, layout: Layout, source: Source, lost: LostFields, up_to: int
) -> set[datetime]:
    """The hours of whose events without bytes a reset has brought all up to the sequence ``up_to``."""
    last = up_to if lost.last is None else lost.last
    brought = dict(
        connection.execute(
            f"SELECT {FROM_HOUR}, count(*) FROM _decoded WHERE {FROM_SEQUENCE} BETWEEN ? AND ? AND sequence <= ? "
            f"AND {FROM_HOUR} IS NOT NULL GROUP BY ALL",
            [lost.first, last, up_to],
        ).fetchall()
    )
    if not brought:
        return set()
    events = open_table(layout.events(source), layout.storage_options).to_pyarrow_dataset()
    connection.register("_archived", events)
    archived = connection.execute(
        "SELECT hour, count(*) FROM _archived WHERE sequence BETWEEN ? AND ? GROUP BY ALL", [lost.first, last]
    ).fetchall()
    connection.unregister("_archived")
    return {hour for hour, count in archived if brought.get(hour) == count}


def _connected(pairs: Iterable[tuple[datetime, datetime]], hours: Iterable[datetime]) -> set[datetime]:
    """Those hours of ``pairs`` that they connect with one of ``hours``, these included."""
    neighbours: dict[datetime, set[datetime]] = {}
    for one, other in pairs:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    found: set[datetime] = set()
    waiting = [hour for hour in hours if hour in neighbours]
    while waiting:
        hour = waiting.pop()
        if hour not in found:
            found.add(hour)
            waiting += neighbours[hour]
    return found


def _arrived_sql(source: Source, lost: LostFields, up_to: int) -> str:
    return arrived_hours_sql(source, lost.first, up_to if lost.last is None else min(lost.last, up_to))


def _add_up(events: Iterable[tuple[datetime, int]]) -> dict[datetime, int]:
    totals: dict[datetime, int] = {}
    for hour, count in events:
        totals[hour] = totals.get(hour, 0) + count
    return totals
