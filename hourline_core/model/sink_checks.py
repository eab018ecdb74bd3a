"""Checks of sinks against the rest of a project."""

from collections.abc import Callable, Iterator, Mapping

from hourline_core.errors import did_you_mean
from hourline_core.model.metric import Metric
from hourline_core.model.sink import SENT_COLUMNS, WITH_REGISTRY, Sink
from hourline_core.model.source import Source
from hourline_core.model.topics import matches


def find_sink_mistakes(
    sinks: Mapping[str, Sink],
    sources: Mapping[str, Source],
    metrics: Mapping[str, Metric],
    unread: set[str],
    has_registry: bool,
    where: Callable[..., str],
) -> Iterator[str]:
    """One line for each mistake. ``unread`` are metrics that exist, but whose own declaration has a mistake."""
    targets: dict[tuple[str, str], str] = {}
    for name, sink in sinks.items():
        if sink.metric not in (*metrics, *unread):
            known = did_you_mean(sink.metric, metrics)
            yield f"{where('sink', name, ('metric',))}: metric: got '{sink.metric}', which is no metric{known}"
        elif sink.metric in metrics and (taken := _taken(metrics[sink.metric])):
            yield (
                f"{where('sink', name, ('metric',))}: metric: got '{sink.metric}', whose column '{taken}' has the name "
                f"of a column that a sink adds ({', '.join(SENT_COLUMNS)}): rename it in the metric"
            )
        if sink.format in WITH_REGISTRY and not has_registry:
            yield (
                f"{where('sink', name, ('format',))}: format: got {sink.format}, but hourline.yaml has no registry; "
                "declare its address there, `registry: {url: https://HOST:PORT}`"
            )
        for source in sources.values():
            if sink.topic is not None and matches(source.topic, sink.topic):
                yield (
                    f"{where('sink', name, ('topic',))}: topic: got '{sink.topic}', which source '{source.name}' "
                    "reads: choose a topic of its own"
                )
        if sink.target in ("topic", "postgresql"):
            earlier = targets.setdefault((sink.target, str(getattr(sink, sink.target))), name)
            if earlier != name:
                yield (
                    f"{where('sink', name, (sink.target,))}: {sink.target}: got '{sink.place}', which sink '{earlier}' "
                    "has already: choose another one"
                )


def _taken(metric: Metric) -> str | None:
    return next((name for name in (*metric.dimensions, *metric.measures) if name in SENT_COLUMNS), None)


def describe_waiting_sinks(
    sinks: Mapping[str, Sink], sources: Mapping[str, Source], metrics: Mapping[str, Metric], where: Callable[..., str]
) -> Iterator[str]:
    """One line for each sink that sends the results of an hour only once later events have come."""
    for name, sink in sinks.items():
        source = sources[metrics[sink.metric].source]
        if sink.emit in ("closed", "final") and source.clock == "event_time" and source.idle is None:
            yield (
                f"{where('sink', name, ('emit',))}: emit: {sink.emit} waits for later events of source "
                f"'{source.name}', whose event times close its hours; `idle: 15m` there, or `clock: wall`, needs none"
            )
