"""A project: its settings, sources and metrics, and the file and line of each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hourline_core.errors import DeclarationError, UsageError, did_you_mean
from hourline_core.model.cross_checks import find_mistakes
from hourline_core.model.derived_sources import bind_derived
from hourline_core.model.home_folder import expand_home
from hourline_core.model.lookup import Lookup
from hourline_core.model.metric import Metric
from hourline_core.model.registry import RegistryAccess, find_registry_mistakes
from hourline_core.model.rollup import ResolvedRollup
from hourline_core.model.settings import Settings
from hourline_core.model.sink import Sink
from hourline_core.model.sink_checks import find_sink_mistakes
from hourline_core.model.source import Source
from hourline_core.model.yaml_files import Document, KeyPath

_LONGEST_IDENTIFIER = 180  # Airflow's ids have at most 250 characters, and the names of DAG and metric follow

Kind = Literal["source", "metric", "lookup", "sink"]


@dataclass(frozen=True)
class Project:
    """All declarations of one project, checked against each other. Python code may build one directly.

    Raises DeclarationError.
    """

    root: Path
    settings: Settings
    sources: Mapping[str, Source]
    metrics: Mapping[str, Metric]
    """The metrics over sources. They are computed, recomputed, audited and published."""
    rollups: Mapping[str, ResolvedRollup] = field(default_factory=dict)
    """The metrics over other metrics. They are merged when they are read."""
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    """The tables of others whose rows expressions name."""
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    """Where results are sent."""
    documents: Mapping[tuple[str, str], Document] = field(default_factory=dict, repr=False, compare=False)
    """The file of each (kind, name). Empty for a project built in Python."""

    def __post_init__(self) -> None:
        mistakes = [
            f"{kind} '{name}': got the key '{key}', allowed is its name"
            for kind, declared in (
                *(("source", self.sources), ("metric", self.metrics)),
                *(("lookup", self.lookups), ("sink", self.sinks)),
            )
            for key, name in ((key, declaration.name) for key, declaration in declared.items())
            if key != name
        ]
        mistakes += find_mistakes(self.sources, self.metrics, self.where_declared, lookups=self.lookups)
        mistakes += find_registry_mistakes(self.sources, self.settings.registry, self.where_declared)
        mistakes += find_sink_mistakes(
            self.sinks, self.sources, self.all_metrics, set(), self.settings.registry is not None, self.where_declared
        )
        if mistakes:
            raise DeclarationError("\n".join(mistakes))
        bound = {name: source.bind_lookups(self.lookups) for name, source in self.sources.items()}
        if self.settings.registry:
            access = RegistryAccess.of(self.settings.registry, self.root, self.workspace)
            bound = {name: source.bind_registry(access) for name, source in bound.items()}
        object.__setattr__(self, "sources", bind_derived(bound))

    def find_metric(self, name: str) -> Metric:
        """The metric with tables that has this name. Raises UsageError, with a near name or with the metric that a
        rollup merges.
        """
        if rollup := self.rollups.get(name):
            raise UsageError(f"metric '{name}' is merged from '{rollup.base}' when it is read: name '{rollup.base}'")
        if name not in self.metrics:
            raise UsageError(f"there is no metric '{name}'{did_you_mean(name, self.metrics)}")
        return self.metrics[name]

    def base_of(self, name: str) -> str:
        """The name of the metric whose tables a metric is served from: its own, or what a rollup merges."""
        return self.rollups[name].base if name in self.rollups else name

    @property
    def all_metrics(self) -> dict[str, Metric]:
        """The metrics that can be asked for, over sources and over other metrics."""
        return {**self.metrics, **{name: rollup.metric for name, rollup in self.rollups.items()}}

    @property
    def closes_by_wall_time(self) -> bool:
        """Whether hours of a source close, and empty hours are listed, as time goes by, without a commit."""
        return any(source.clock == "wall" for source in self.sources.values())

    @property
    def name(self) -> str:
        """The name in the settings, or that of the folder."""
        return self.settings.name or self.root.absolute().name

    @property
    def identifier(self) -> str:
        """The name with letters, digits, dots, hyphens and underscores only, as Airflow's ids require.

        Other characters become _.
        """
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", self.name)[:_LONGEST_IDENTIFIER]

    @property
    def workspace(self) -> Path:
        """The absolute path of the workspace. It need not exist yet."""
        return self.root.absolute() / expand_home(self.settings.workspace)

    @property
    def tables(self) -> str:
        """The root of the tables: an absolute path or a URI, without a slash at its end."""
        tables = self.settings.tables
        if tables is None:
            return str(self.workspace / "tables")
        if "://" in tables:
            return tables.rstrip("/")
        return str(self.root.absolute() / expand_home(tables))

    def source_of(self, metric: Metric) -> Source:
        """The source that ``metric`` is computed from."""
        return self.sources[metric.source]

    def metrics_of(self, source: str) -> list[Metric]:
        """The metrics over one source, sorted by name."""
        return [self.metrics[name] for name in sorted(self.metrics) if self.metrics[name].source == source]

    def rollups_of(self, base: str) -> list[Metric]:
        """The metrics that are merged from one metric, sorted by name."""
        return [self.rollups[name].metric for name in sorted(self.rollups) if self.rollups[name].base == base]

    def where_declared(self, kind: str, name: str, path: KeyPath = ()) -> str:
        """``metrics/x.yaml:7`` for the item at ``path`` (such as ``("measures", "worst")``).

        For a declaration built in Python, ``metric 'x'``.
        """
        return place_of(self.documents, kind, name, path)


def place_of(documents: Mapping[tuple[str, str], Document], kind: str, name: str, path: KeyPath = ()) -> str:
    """The place of an item, as ``Project.where_declared`` gives it."""
    document = documents.get((kind, name))
    return document.place(path) if document else f"{kind} '{name}'"
