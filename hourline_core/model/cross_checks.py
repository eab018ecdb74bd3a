"""Checks across the declarations of a project."""

from collections.abc import Callable, Collection, Mapping

from hourline_core.errors import did_you_mean
from hourline_core.model.metric import Metric
from hourline_core.model.source import Source
from hourline_core.model.yaml_files import KeyPath

Where = Callable[[str, str, KeyPath], str]
"""Returns the place of (``"source"`` or ``"metric"``, name, path) as ``file:line``."""


def find_mistakes(
    sources: Mapping[str, Source], metrics: Mapping[str, Metric], where: Where, unread: Collection[str] = ()
) -> list[str]:
    """One line for each mistake. ``unread`` are sources that exist, but whose own declaration has a mistake."""
    mistakes = []
    claimed: dict[str, str] = {}
    for name, source in sources.items():
        place = where("source", name, ("topic",))
        earlier = claimed.setdefault(source.topic, place)
        if earlier != place:
            mistakes.append(f"{place}: topic: got '{source.topic}', allowed is one source per topic: see {earlier}")
    source_names = {*sources, *unread}
    for name, metric in metrics.items():
        if metric.source not in source_names and source_names:
            place = where("metric", name, ("source",))
            hint = did_you_mean(metric.source, source_names)
            mistakes.append(f"{place}: source: got '{metric.source}', which is no source of this project{hint}")
    return mistakes
