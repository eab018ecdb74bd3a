"""Checks across the declarations of a project."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from hourline_core.errors import did_you_mean
from hourline_core.model.branches import Where, find_branch_mistakes
from hourline_core.model.joined_sources import find_join_mistakes
from hourline_core.model.lookup import Lookup
from hourline_core.model.metric import Metric
from hourline_core.model.source import Source
from hourline_core.model.source_as_table import find_lookup_table_mistakes
from hourline_core.model.table_sources import find_table_source_mistakes


def find_mistakes(
    sources: Mapping[str, Source],
    metrics: Mapping[str, Metric],
    where: Where,
    unread: Collection[str] = (),
    rollups: Collection[str] = (),
    lookups: Mapping[str, Lookup] = MappingProxyType({}),
    unread_lookups: Collection[str] = (),
) -> list[str]:
    """One line for each mistake. ``unread`` are sources that exist, but whose own declaration has a mistake, as
    ``unread_lookups`` are, and ``rollups`` the names of metrics over metrics.
    """
    mistakes = [
        *find_branch_mistakes(sources, where),
        *find_join_mistakes(sources, where, unread),
        *find_table_source_mistakes(sources, where, unread),
        *_find_lookup_mistakes(sources, where, lookups, unread_lookups),
        *find_lookup_table_mistakes(lookups.values(), sources, where, unread),
    ]
    source_names = {*sources, *unread}
    for name, metric in metrics.items():
        if metric.source not in source_names and source_names:
            place = where("metric", name, ("source",))
            if metric.source in (*metrics, *rollups):
                hint = f": it is a metric, and a metric over it has `from: {metric.source}` in place of `source`"
            else:
                hint = did_you_mean(metric.source, source_names)
            mistakes.append(f"{place}: source: got '{metric.source}', which is no source of this project{hint}")
    return mistakes


def find_view_clashes(metrics: Mapping[str, Metric], where: Where) -> list[str]:
    """One line for each metric that has the name of another one's view."""
    hours_of = {f"{name}_hours": name for name, metric in metrics.items() if not metric.window.is_hour}
    return [
        f"{where('metric', name, ('name',))}: name: got '{name}', which is the view of the hours of "
        f"'{hours_of[name]}', as that has windows: choose another name"
        for name in metrics
        if name in hours_of
    ]


def _find_lookup_mistakes(
    sources: Mapping[str, Source], where: Where, lookups: Mapping[str, Lookup], unread: Collection[str]
) -> Iterator[str]:
    """A line for each use of a lookup that is not declared, or has another number of columns in its key."""
    for source in sources.values():
        for name, use in source.lookups.items():
            of, path = source.lookup_name(name), ("lookups", name)
            place = f"{where('source', source.name, path)}: {'.'.join(path)}: "
            if of not in (*lookups, *unread):
                yield f"{place}got '{of}', which is no lookup of this project{did_you_mean(of, lookups)}"
            elif of in lookups and len(use.key) != len(lookups[of].key):
                columns = ", ".join(lookups[of].key)
                yield f"{place}got {len(use.key)} expression(s), allowed is one for each of the key: {columns}"
