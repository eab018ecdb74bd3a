"""The decodings that have made the events of an archive: a property of its table, which the speed layer extends when it
starts with another one.
"""

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from deltalake import DeltaTable

from hourline_core.errors import SourceError
from hourline_core.ledger.layout import Layout
from hourline_core.model import Source
from hourline_core.model.decoding import Decoding, changed_fields, decoding_of, describe_changes, find_other_derivation
from hourline_core.storage.commit_log import WIDENED
from hourline_core.storage.commits import commit_properties, durable_step
from hourline_core.storage.open_tables import OpenTables

_DECODINGS = "hourline.decodings"
_RESET = "hourline.reset"
"""The property that says that a reset deletes the events of a derived source. Empty: none does."""


@dataclass(frozen=True)
class UsedDecoding(Decoding):
    """A decoding by which records were archived."""

    since: datetime | None = None
    """When the speed layer started with it (UTC). None: before decodings were recorded."""
    first_sequence: int = 0
    """The first sequence that it may have made. It ends with the next one."""


def read_decodings(events: DeltaTable) -> list[UsedDecoding]:
    """The decodings of the archived ``events``, in the order of their use. One may come again. Empty: an older version
    of Hourline made the archive, and the speed layer has not started since.
    """
    stored = json.loads(events.metadata().configuration.get(_DECODINGS, "[]"))
    return [
        UsedDecoding(
            one["hash"],
            one["declared"],
            one["raw"],
            None if one["since"] is None else datetime.fromisoformat(one["since"]).astimezone(UTC),
            one["first_sequence"],
        )
        for one in stored
    ]


def note_decoding(events: DeltaTable, now: Decoding, sequence: int, moment: datetime) -> None:
    """Record that events from ``sequence`` on are made by the decoding ``now``, unless the last ones were, too.
    ``moment`` (UTC) is the time of the start.

    Of an archive with events that an older version of Hourline made, it is taken to be theirs, too: their bytes were
    not kept. Raises ConflictError when another process writes to ``events``.
    """
    known: Sequence[UsedDecoding] = read_decodings(events)
    if known and known[-1].hash == now.hash:
        return
    if not known and sequence > 1:
        known = [UsedDecoding("", now.declared, raw=False)]
    _set_properties(events, {_DECODINGS: _as_text([*known, _used(now, sequence, moment)])})


def begin_reset(events: DeltaTable) -> None:
    """Record that a reset deletes the ``events`` of a derived source. Until ``end_reset``, they are refused. Raises
    ConflictError as ``note_decoding`` does.
    """
    _set_properties(events, {_RESET: "begun"})


def end_reset(events: DeltaTable, now: Decoding, sequence: int, moment: datetime) -> None:
    """Record that ``events`` are deleted, and that those from ``sequence`` on are made by the decoding ``now``. Errors
    and ``moment`` are as in ``note_decoding``.
    """
    _set_properties(events, {_DECODINGS: _as_text([_used(now, sequence, moment)]), _RESET: ""})


def _used(now: Decoding, sequence: int, moment: datetime) -> UsedDecoding:
    return UsedDecoding(now.hash, now.declared, now.raw, moment, sequence)


def _as_text(used: Iterable[UsedDecoding]) -> str:
    return json.dumps(
        [{**vars(one), "since": None if one.since is None else one.since.isoformat()} for one in used], sort_keys=True
    )


def _set_properties(events: DeltaTable, properties: dict[str, str]) -> None:
    with durable_step("widen", events):
        events.alter.set_table_properties(
            properties,
            raise_if_not_exists=False,  # Hourline's own properties
            commit_properties=commit_properties({WIDENED: "decodings"}),
        )


def refuse_other_derivation(events: DeltaTable, source: Source) -> None:
    """Raise SourceError if the archived ``events`` of a derived source were made by another declaration, of it or of
    its inputs, or a reset has not deleted all of them. They are not those of today's.
    """
    if not source.is_derived:
        return
    if events.metadata().configuration.get(_RESET):
        raise SourceError(
            f"a reset of source '{source.name}' was interrupted; let it finish: `hourline reset {source.name}`"
        )
    used = read_decodings(events)
    if used and (changed := find_other_derivation(used[-1], decoding_of(source))):
        raise SourceError(
            f"source '{source.name}' is {source.origin_text} in another way than the events in its archive were made: "
            f"changed is {', '.join(changed)}; declare that again as it was, or let all of its events be made anew: "
            f"`hourline reset {source.name}`"
        )


@dataclass(frozen=True)
class LostFields:
    """What cannot be decoded anew of the records of some sequences, since their bytes were not kept."""

    fields: frozenset[str]
    """The names, in lower case, of the fields that are read in another way now."""
    first: int
    """The first sequence whose records may be such ones."""
    last: int | None
    """The last one. None: there may be further ones."""


@dataclass(frozen=True)
class ArchiveDecodings:
    """The decodings of an archive, seen from the one that is declared now."""

    now: Decoding
    used: Sequence[UsedDecoding]

    @classmethod
    def of(cls, events: DeltaTable, source: Source) -> "ArchiveDecodings":
        """Those of the archived ``events`` of ``source``."""
        return cls(decoding_of(source), read_decodings(events))

    @classmethod
    def read(cls, layout: Layout, source: Source) -> "ArchiveDecodings":
        """Those of the newest version of the archive of ``source``. Raises TableError."""
        with OpenTables(layout.storage_options) as opened:
            return cls.of(opened.open(layout.events(source)), source)

    @cached_property
    def others(self) -> list[UsedDecoding]:
        """Those whose records are decoded anew, as far as their bytes were kept."""
        return [
            one for one in self.used if one.hash != self.now.hash and (one.raw or one.declared != self.now.declared)
        ]

    @cached_property
    def lost(self) -> list[str]:
        """The hashes of those of ``others`` whose records' bytes were not kept. A reset may have brought them since."""
        return list(dict.fromkeys(one.hash for one in self.others if not one.raw))

    @cached_property
    def standing(self) -> list[str]:
        """The hashes of those whose events count as they are archived: the one of now, and those without bytes, as far
        as no reset has brought them.
        """
        return [self.now.hash, *(one.hash for one in self.used if not one.raw and one.hash != self.now.hash)]

    @cached_property
    def lost_fields(self) -> list["LostFields"]:
        """The fields that are read in another way now, of each decoding whose records' bytes were not kept."""
        return [
            LostFields(changed_fields(one, self.now), one.first_sequence, last)
            for one, last in self._with_ends()
            if not one.raw and one.hash != self.now.hash
        ]

    def sequences_of(self, hashes: Container[str]) -> list[tuple[int, int | None]]:
        """The first and the last sequence (None: there may be further ones) of each time that one of these decodings
        was used.
        """
        return [(one.first_sequence, last) for one, last in self._with_ends() if one.hash in hashes]

    def last_of_others(self, up_to: int) -> int:
        """The last sequence, at most ``up_to``, that one of ``others`` may have made. 0: there is none."""
        ends = [up_to if last is None else min(last, up_to) for one, last in self._with_ends() if one in self.others]
        return max(ends, default=0)

    def _with_ends(self) -> Iterable[tuple[UsedDecoding, int | None]]:
        """Each decoding with the last sequence that it may have made. None: it may make further ones."""
        following = [one.first_sequence - 1 for one in self.used[1:]]
        return zip(self.used, [*following, None][: len(self.used)], strict=True)

    def describe_changes(self) -> list[str]:
        """In words, what is declared in another way than when the records of ``others`` were archived."""
        started = next((one.since for one in self.used if one.hash == self.now.hash), None)
        since = f"since {started:%Y-%m-%d %H:%M} UTC" if started else "now"
        changes = [change for one in self.others for change in describe_changes(one, self.now)]
        return [f"{change} {since}" for change in dict.fromkeys(changes)] or [f"the decoder is another one {since}"]
