"""Loading a project's declarations from its folder."""

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from errno import EXDEV
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from hourline_core.errors import DeclarationError, UsageError
from hourline_core.model.base import Declaration
from hourline_core.model.cross_checks import find_mistakes, find_view_clashes
from hourline_core.model.derived_sources import bind_derived
from hourline_core.model.home_folder import expand_home
from hourline_core.model.kafka_options import resolve_files
from hourline_core.model.lookup import Lookup
from hourline_core.model.metric import Metric
from hourline_core.model.project import Project, place_of
from hourline_core.model.record_format import read_schema_files
from hourline_core.model.registry import find_registry_mistakes
from hourline_core.model.rollup import Rollup, resolve_rollups
from hourline_core.model.settings import Settings
from hourline_core.model.sink import Sink
from hourline_core.model.sink_checks import find_sink_mistakes
from hourline_core.model.source import Source
from hourline_core.model.sql_form import expand_sql
from hourline_core.model.user_measure import UserMeasure, read_user_measures
from hourline_core.model.validation_errors import list_mistakes
from hourline_core.model.yaml_files import Document, KeyPath, Mistake, read_yaml

SETTINGS_FILE = "hourline.yaml"
SCHEMAS_FOLDER = "schemas"

_UNREADABLE = re.compile(r"[%\\\x00-\x1f\x7f]")
"""Characters that delta-rs or DuckDB's delta extension misread in a path, and then look in another folder."""

_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")
"""What Python makes of bytes in a name that its encoding of file names does not have."""

Declared = TypeVar("Declared", bound=Declaration)


def load_project(root: Path, environ: Mapping[str, str] = os.environ, workspace: Path | None = None) -> Project:
    """Read ``hourline.yaml``, ``sources/*.yaml``, ``lookups/*.yaml``, ``metrics/*.yaml``, ``sinks/*.yaml``,
    ``measures/*.py`` and ``folds/*.py`` below ``root``. No Python of the project runs.

    ``workspace`` overrides the setting, and is relative to the working directory. Raises UsageError when ``root`` is
    no project. Raises DeclarationError with all mistakes, one per line, such as
    ``metrics/delays.yaml:7: measures.worst: got …, allowed is …``.
    """
    return _Loading(_project_folder(root), environ).project(workspace)


def load_settings(root: Path, workspace: Path | None = None) -> Project:
    """Read the settings alone; sources and metrics may have mistakes. For commands that stop services or show their
    status. Raises as ``load_project``.
    """
    return _Loading(_project_folder(root), os.environ).project(workspace, folders=False)


def _project_folder(root: Path) -> Path:
    root = Path(root)
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}: name the project's folder with --project")
    if not (root / SETTINGS_FILE).is_file():
        advice = "name another folder with --project, or make one with `hourline init`"
        raise UsageError(f"{root.absolute()} is no Hourline project, it has no {SETTINGS_FILE}: {advice}")
    return root


def _metric_model(sources: Mapping[str, Source], of_user: Collection[str], document: Document) -> type[Declaration]:
    """The model of a file in ``metrics``. A statement in SQL is expanded."""
    expand_sql(document, sources, of_user)
    return Rollup if "from" in document.content else Metric


def _read_within(folder: Path, name: str) -> str:
    """The text of the file ``name`` of ``folder``. Raises OSError and ValueError if it cannot be read."""
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise OSError(EXDEV, "it is in another folder")
    return (folder / name).read_text("utf-8")


def _only(model: type[Declared], declared: Mapping[str, Declaration]) -> dict[str, Declared]:
    return {name: one for name, one in declared.items() if isinstance(one, model)}


def _refuse_misread(tables: str) -> None:
    """Raise UsageError if libraries would look for ``tables`` in another folder, or in none."""
    elsewhere = "choose another workspace (--workspace, or `workspace` in hourline.yaml)"
    if odd := _UNREADABLE.search(tables):
        raise UsageError(
            f"tables cannot be in {tables!r}: the Delta libraries misread {odd[0]!r} in a path; {elsewhere}"
        )
    if _NOT_UTF8.search(tables):
        encoding = sys.getfilesystemencoding()
        remedy = f"rename that folder, or {elsewhere}"
        if encoding != "utf-8":
            remedy = f"Python takes names of files for {encoding} here: set PYTHONUTF8=1, or run `python -X utf8`"
        raise UsageError(f"tables cannot be in {tables!r}: a name in that path is not UTF-8; {remedy}")


class _Loading:
    """One pass over a project's files. It continues after a mistake, to report all of them at once."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        self.environ = environ
        self.mistakes: list[str] = []
        self.documents: dict[tuple[str, str], Document] = {}
        self.user_measures: Mapping[str, UserMeasure] = {}

    def project(self, workspace: Path | None, folders: bool = True) -> Project:
        settings_document = read_yaml(self.root, self.root / SETTINGS_FILE, self.environ)
        settings = self._build(Settings, settings_document)
        self.user_measures = read_user_measures(self.root, self.mistakes) if folders else {}
        lookups = _only(Lookup, self._folder("lookup", lambda _: Lookup) if folders else {})
        sources = bind_derived(_only(Source, self._folder("source", self._source_model) if folders else {}))
        in_metrics = self._folder("metric", partial(_metric_model, sources, self.user_measures)) if folders else {}
        metrics, rollups = _only(Metric, in_metrics), _only(Rollup, in_metrics)
        if folders and not any(kind == "source" for kind, _ in self.documents):
            self.mistakes.append(
                "sources: there is no source: write sources/NAME.yaml, "
                "or see what `hourline init` writes into a new folder"
            )
        unread = {name for kind, name in self.documents if kind == "source" and name not in sources}
        unread_lookups = {name for kind, name in self.documents if kind == "lookup" and name not in lookups}
        place = partial(place_of, self.documents)
        self.mistakes += find_mistakes(sources, metrics, place, unread, rollups, lookups, unread_lookups)
        if settings is not None:
            self.mistakes += find_registry_mistakes(sources, settings.registry, place)
        undeclared = {name for kind, name in self.documents if kind == "metric"} - metrics.keys() - rollups.keys()
        over, mistakes = resolve_rollups(rollups, metrics, place, undeclared)
        self.mistakes += mistakes
        all_metrics = {**metrics, **{name: one.metric for name, one in over.items()}}
        self.mistakes += find_view_clashes(all_metrics, place)
        sinks = _only(Sink, self._folder("sink", lambda _: Sink) if folders else {})
        unread_metrics = {name for kind, name in self.documents if kind == "metric" and name not in all_metrics}
        self.mistakes += find_sink_mistakes(
            sinks, sources, all_metrics, unread_metrics, settings is None or settings.registry is not None, place
        )
        if self.mistakes or settings is None:
            raise DeclarationError("\n".join(self.mistakes))
        if workspace is not None:
            settings = settings.model_copy(update={"workspace": expand_home(workspace).absolute()})
        options = resolve_files(settings.kafka.options, self.root)
        settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"options": options})})
        project = Project(self.root, settings, sources, metrics, over, lookups, sinks, self.documents)
        if folders and "://" not in project.tables:
            _refuse_misread(project.tables)
        return project

    def _folder(self, kind: str, model_of: Callable[[Document], type[Declaration]]) -> dict[str, Declaration]:
        """The declarations in a folder by name. ``model_of`` gives the model of a document, and may prepare it."""
        declared: dict[str, Declaration] = {}
        files = [
            file
            for file in (self.root / f"{kind}s").glob("*")
            if file.suffix in (".yaml", ".yml") and not file.name.startswith(".")
        ]
        for file in sorted(files):
            document = read_yaml(self.root, file, self.environ)
            given = document.content.get("name")
            name = given if isinstance(given, str) else file.stem
            if document.readable and not document.content:
                self.mistakes.append(f"{document.place()}: the file is empty: declare a {kind} in it, or delete it")
                document.readable = False
            if given is None:
                document.content["name"] = file.stem
            built = self._build(model_of(document), document)
            earlier = self.documents.setdefault((kind, name), document)
            if earlier is not document:
                self.mistakes.append(
                    f"{document.place(('name',))}: got the {kind} '{name}' again, "
                    f"allowed is each name once: see {earlier.place(('name',))}"
                )
            elif built is not None:
                declared[name] = built
        return declared

    def _source_model(self, document: Document) -> type[Declaration]:
        """The model of a file in ``sources``. Files of schemas are put in the place of their names."""

        def read(name: str, path: KeyPath) -> str:
            try:
                return _read_within(self.root / SCHEMAS_FOLDER, name)
            except (OSError, ValueError) as error:
                why = "it is no text in UTF-8" if isinstance(error, ValueError) else error.strerror
                names = sorted(one.name for one in (self.root / SCHEMAS_FOLDER).glob("*") if one.is_file())
                there = f"there are {', '.join(names)}" if names else "it has no file"
                place = ("format", *path)
                document.mistakes.append(
                    Mistake(
                        document.lines.get(document.nearest(place), 1),
                        place,
                        f"got the schema '{name}', which cannot be read: {why}; allowed is the name of a file in the "
                        f"folder {SCHEMAS_FOLDER} ({there}), or a schema itself",
                    )
                )
                return ""

        read_schema_files(document.content.get("format"), read, self.root / SCHEMAS_FOLDER)
        return Source

    def _build(self, model: type[Declared], document: Document) -> Declared | None:
        """The declaration, or None after adding its mistakes."""
        mistakes = list(document.mistakes)
        built = None
        if document.readable:
            try:
                built = model.model_validate(document.content, context=self.user_measures)
            except ValidationError as error:
                # A mistake in the file itself causes further ones at its place; they are not reported.
                reported = {mistake.path for mistake in document.mistakes}
                mistakes += [
                    mistake
                    for mistake in list_mistakes(error, model, document)
                    if document.nearest(mistake.path) not in reported
                ]
        for mistake in sorted(mistakes, key=lambda mistake: mistake.line):
            # A quoted key may contain line breaks, but a mistake is one line.
            where = f"{' '.join('.'.join(mistake.path).split())}: " if mistake.path else ""
            self.mistakes.append(f"{document.file}:{mistake.line}: {where}{mistake.text}")
        return None if mistakes else built
