"""What must hold between the declarations of a project."""

from collections.abc import Callable, Collection, Mapping

from hourline_core.errors import did_you_mean
from hourline_core.model.metric import Metric
from hourline_core.model.source import Source
from hourline_core.model.yaml_files import KeyPath

Where = Callable[[str, str, KeyPath], str]
"""Gives the place of (``"source"`` or ``"metric"``, name, path), as ``file:line``."""


def mistakes_between(
    sources: Mapping[str, Source], metrics: Mapping[str, Metric], where: Where, unread: Collection[str] = ()
) -> list[str]:
    """One line for each mistake. ``unread`` are sources whose own declaration is mistaken: they exist."""
    mistakes = []
    claimed: dict[str, str] = {}
    for name, source in sources.items():
        place = where("source", name, ("topic",))
        earlier = claimed.setdefault(source.topic, place)
        if earlier != place:
            mistakes.append(f"{place}: topic: got '{source.topic}', allowed is one source per topic: see {earlier}")
    known = {*sources, *unread}
    for name, metric in metrics.items():
        if metric.source not in known and known:
            place = where("metric", name, ("source",))
            mistakes.append(
                f"{place}: source: got '{metric.source}', which is no source of this project{did_you_mean(metric.source, known)}"
            )
    return mistakes
