"""The sources whose records name schemas that the schema registry has not told. Such a source waits until the registry
answers, however long that takes, and the others are read on.
"""

import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta

from hourline_core.errors import RegistryError
from hourline_core.formats.registry.client import NotInRegistryError, RegistryClient
from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock
from hourline_core.model.registry import RegistryAccess
from hourline_core.runtime.registry_absence import RegistryAbsence, note_registry_absences
from speed_layer.observer import Observer

_SECONDS_BETWEEN = 2.0
"""Between two questions to a registry that does not answer."""

_LONGEST_PAUSE = 60.0
_FORGOTTEN_AFTER = 600.0
"""A failure so long ago, in seconds, does not lengthen the next pause."""
_SAME_WITHIN = timedelta(minutes=2)
"""A source that waits again so soon has waited since the first time: the registry answers, but not about its schema."""


class AwaitedRegistry:
    """Which sources of ``project`` wait for the registry; also noted in the workspace. A thread for each of them asks
    it, until ``close``. ``clock`` is the wall's (UTC).
    """

    def __init__(self, project: Project, clock: Clock, observer: Observer) -> None:
        self._project, self._clock, self._observer = project, clock, observer
        self._waiting: dict[str, RegistryAbsence] = {}
        self._waited: dict[str, tuple[datetime, datetime]] = {}
        """The last time that each source has waited: since when, and until when."""
        self._failures: dict[str, list[float]] = {}
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._note()

    def is_awaited_by(self, source: Source) -> bool:
        """Whether ``source`` waits."""
        with self._changing:
            return source.name in self._waiting

    def wait_for(self, failure: RegistryError) -> None:
        """Let the source whose stream has ended by ``failure`` wait. If it comes again although the registry answers,
        it waits longer each time.
        """
        source, now = failure.source, time.monotonic()
        recent = [one for one in self._failures.get(source, []) if now - one < _FORGOTTEN_AFTER]
        self._failures[source] = [*recent, now]
        pause = min(_SECONDS_BETWEEN * 2 ** len(recent), _LONGEST_PAUSE)
        self._observer.registry_absent(failure)
        moment = self._clock()
        since, until = self._waited.get(source, (moment, moment))
        if moment - until > _SAME_WITHIN:
            since = moment
        with self._changing:
            self._waiting[source] = RegistryAbsence(since, failure.reason)
            self._note()
        threading.Thread(target=self._ask, args=(source, pause), name="registry-watch", daemon=True).start()

    def close(self) -> None:
        """Ask no more. The threads are not waited for: they may be asking a registry that does not answer."""
        self._closed.set()

    def _ask(self, source: str, pause: float) -> None:
        project = self._project
        assert project.settings.registry, "the stream has asked it"
        client = RegistryClient(RegistryAccess.of(project.settings.registry, project.root, project.workspace))
        while not self._closed.wait(pause):
            pause = _SECONDS_BETWEEN
            with suppress(RegistryError):
                with suppress(NotInRegistryError):
                    client.ask()
                break
        if self._closed.is_set():
            return
        with self._changing:
            self._waited[source] = self._waiting.pop(source).since, self._clock()
            self._note()
        with suppress(OSError):  # Nobody may listen any more.
            self._observer.registry_is_back(source)

    def _note(self) -> None:
        with suppress(OSError):  # The disk may be full. The streams do not depend on it.
            note_registry_absences(self._project.workspace, self._waiting)
