"""Notices a speed layer that has taken over while this one was between two starts of its streams.

A start fences every table. It would fence that speed layer out, which holds the lease by right.
"""

from hourline_core.errors import ConflictError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, Source
from hourline_core.storage.opening import open_table


class TakeoverCheck:
    """Compares the progress that this process has opened for its streams with what is there now."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._opened: dict[str, Progress] = {}

    def watch(self, source: Source, progress: Progress) -> None:
        """Watch the ``progress`` of a source, which this process writes from now on."""
        self._opened[source.name] = progress

    def refuse_takeover(self) -> None:
        """Raise ConflictError if another process has written to what is watched. Otherwise, watch nothing any more."""
        layout = Layout.of(self._project)
        for name, progress in self._opened.items():
            now = open_table(layout.progress(self._project.sources[name]), layout.storage_options).version()
            if now != progress.table.version():
                raise ConflictError(
                    f"another process has written to the progress of source '{name}' since its stream ended (version "
                    f"{now} after {progress.table.version()}); it has taken over, and this one stops and changes "
                    "nothing"
                )
        self._opened.clear()
