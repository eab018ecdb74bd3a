"""Waits until progress says that records are counted. It looks at the versions of progress a few times a second, and
reads their new rows.
"""

import math
import threading
import time
from collections.abc import Collection, Mapping

from hourline_core.errors import NotCountedYetError, UsageError
from hourline_core.ledger.counted_offsets import CountedOffsets, follow
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project
from hourline_core.runtime.lease import lease_holder
from hourline_core.storage.open_tables import OpenTables
from serving_layer.at_least.form import AtLeast, check_at_least
from serving_layer.at_least.targets import NotHeldError, Target, find_targets, sources_reading
from serving_layer.reports.kafka_offsets import KafkaOffsets, Offsets, Unknown

LOOK_SECONDS = 0.1
"""The time between two looks at the versions of progress."""
SETTLE_SECONDS = 1.0
"""The time within which the nodes of a Kafka have told each other what they hold."""
_MOST_TOLD = 5
"""The maximum number of partitions in a message."""


class CountedSources:
    """Up to which offsets the sources of a project are counted. Threads may share it."""

    def __init__(self, project: Project) -> None:
        self._layout = Layout.of(project)
        self._project = project
        self._lock = threading.Lock()
        self._known: dict[str, CountedOffsets | None] = {}

    def look(self, sources: Collection[str]) -> dict[str, CountedOffsets | None]:
        """By source, the newest. None: the speed layer has never started with it. Raises TableError."""
        with self._lock, OpenTables(self._layout.storage_options) as opened:
            for name in sources:
                table = opened.find(self._layout.progress(self._project.sources[name]))
                self._known[name] = None if table is None else follow(Progress(table), self._known.get(name))
            return {name: self._known[name] for name in sources}


class Awaited:
    """The records that one question waits for, and how far they are. For one thread at a time."""

    def __init__(self, counting: CountedSources, project: Project, sources: Collection[str], at_least: AtLeast) -> None:
        """``sources`` are those that the question names. Raises UsageError for a topic that none of them reads, and for
        what is not in the form.
        """
        self._at_least = check_at_least(at_least)
        self._project = project
        self._counting = counting
        self._sources = sources_reading(project, sources, self._at_least)
        self._left: list[Target] = []
        self._unasked: list[str] = []
        self._counted: Mapping[str, CountedOffsets | None] = {}
        self.sequences: dict[str, int] = {}
        """By source, from which sequence on answers count what was found so far."""

    def aim(self, offsets: Offsets) -> None:
        """Find out what to wait for. ``offsets`` are those that Kafka held when the question had come, or later.
        Raises as ``find_targets``, TableError.
        """
        asked = (offsets[source.name] for source in self._sources)
        self._unasked = [answer.reason for answer in asked if isinstance(answer, Unknown)]
        self._counted = self._counting.look([source.name for source in self._sources])
        self._left = find_targets(self._sources, self._at_least, offsets, self._counted)

    def look(self) -> bool:
        """Whether all is counted now. Raises TableError."""
        names = list(dict.fromkeys(target.source for target in self._left))
        self._counted = self._counting.look(names)
        left = [target for target in self._left if not target.is_counted(self._counted[target.source])]
        for name in names:
            counted = self._counted[name]
            if counted is not None and all(target.source != name for target in left):
                self.sequences[name] = counted.sequence
        self._left = left
        return not left

    def too_late(self, seconds: float) -> NotCountedYetError:
        """The error that says how far each partition is, after ``seconds``."""
        told = [self._in_words(target) for target in self._left[:_MOST_TOLD]]
        further = len(self._left) - len(told)
        if further:
            told.append(f"and {further} more partition(s)")
        advice = "ask again, or wait longer"
        if lease_holder(self._project.workspace, "speed") is None:
            advice = "the speed layer is not running; `hourline up` starts it"
        elif all(target.held_back for target in self._left):
            advice = "the producer must commit or abort its transaction first"
        unasked = f"; Kafka could not be asked: {self._unasked[0]}" if self._unasked else ""
        return NotCountedYetError(f"not all is counted after {seconds:g} s: {', '.join(told)}: {advice}{unasked}")

    def _in_words(self, target: Target) -> str:
        counted = self._counted[target.source]
        reading = counted and counted.readings.get(target.id_in(counted) or "")
        following = reading.next_offsets.get(target.partition, 0) if reading else 0
        upto = f"up to offset {following - 1}" if following else "nothing"
        held_back = ", which an open transaction holds back" if target.held_back else ""
        return (
            f"source '{target.source}' has counted {upto} of {target.topic}:{target.partition}, asked for is "
            f"{target.offset}{held_back}"
        )


def await_counted(project: Project, sources: Collection[str], at_least: AtLeast, seconds: float) -> dict[str, int]:
    """By source, the sequence from which on answers count ``at_least``, once they do. ``sources`` are those that the
    question names.

    Kafka is asked first. If it does not answer, progress alone says what is counted, except for `now`.

    Raises UsageError for what cannot come, NotCountedYetError after ``seconds``, and as ``find_targets``; TableError.
    """
    if not 0 <= seconds < math.inf:
        raise UsageError(f"got a wait of {seconds:g} seconds, allowed is a number from 0")
    begun = time.monotonic()
    awaited = Awaited(CountedSources(project), project, sources, at_least)
    while True:
        try:
            awaited.aim(KafkaOffsets(project).within_limit())
            break
        except NotHeldError:
            if time.monotonic() > begun + SETTLE_SECONDS:
                raise
            time.sleep(LOOK_SECONDS)
    while not awaited.look():
        if time.monotonic() > begun + seconds:
            raise awaited.too_late(seconds)
        time.sleep(LOOK_SECONDS)
    return awaited.sequences
