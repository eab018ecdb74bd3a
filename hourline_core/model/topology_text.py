"""The topology of a project: topics and folders, the sources that read them or are derived from others, and the
metrics over these; as text and as Mermaid.

The name is that of Kafka Streams, whose ``Topology.describe()`` prints the same kind of list.
"""

from collections.abc import Iterator
from operator import attrgetter

from hourline_core.model.lookup import RECORD_KEY
from hourline_core.model.metric import Metric
from hourline_core.model.project import Project
from hourline_core.model.source import Source
from hourline_core.model.times import duration_text
from hourline_core.model.topics import topic_labels


def topology_text(project: Project) -> str:
    """The topics, each with its sources, and each source with its metrics, as an indented list. The steps and metrics
    of a source that reads several topics are listed with the first of them.
    """
    lines, listed = [], set()
    origins = [(f"topic {topic}", sources) for topic, sources in _sources_by_topic(project).items()]
    origins += [(_place_text(one), [one]) for one in _of_files(project)]
    origins += [(_inputs_text(one), [one]) for one in _derived(project)]
    for origin, sources in origins:
        lines.append(origin)
        for source in sources:
            if source.name in listed:
                lines.append(f"  source {source.name}: as above")
                continue
            listed.add(source.name)
            lines.append(f"  source {source.name}{_join(_steps_of(source))}")
            for metric in project.metrics_of(source.name):
                lines.append(f"    metric {metric.name}{_join(_steps_of_metric(metric))}")
                lines += [
                    f"      metric {over.name}, over {metric.name}{_join(_steps_of_metric(over))}"
                    for over in project.rollups_of(metric.name)
                ]
    return "\n".join(lines)


def topology_mermaid(project: Project) -> str:
    """The same as a Mermaid flowchart, for a page that renders it. See https://mermaid.js.org/syntax/flowchart.html."""
    lines, drawn = ["flowchart LR"], set()
    for number, (topic, sources) in enumerate(_sources_by_topic(project).items()):
        lines.append(f'    topic{number}[("{topic.translate(_ESCAPED)}")]')
        for source in sources:
            if source.name not in drawn:
                drawn.add(source.name)
                lines += _draw(source, project)
            lines.append(f"    topic{number} --> source_{source.name}")
    for number, source in enumerate(_of_files(project)):
        lines.append(f'    files{number}[("{_place_text(source).translate(_ESCAPED)}")]')
        lines += _draw(source, project)
        lines.append(f"    files{number} --> source_{source.name}")
    for source in _derived(project):
        lines += _draw(source, project)
        lines += [f"    source_{name} --> source_{source.name}" for name in source.input_names]
    return "\n".join(lines)


def _draw(source: Source, project: Project) -> Iterator[str]:
    """The node of the source, and those of its metrics."""
    yield f'    source_{source.name}["{_label(source.name, _steps_of(source))}"]'
    for metric in project.metrics_of(source.name):
        yield from _draw_metric(metric, f"source_{source.name}")
        for over in project.rollups_of(metric.name):
            yield from _draw_metric(over, f"metric_{metric.name}")


def _draw_metric(metric: Metric, read: str) -> Iterator[str]:
    """The node of the metric, with an arrow from the node that it reads."""
    yield f'    metric_{metric.name}(["{_label(metric.name, _steps_of_metric(metric))}"])'
    yield f"    {read} --> metric_{metric.name}"


def _sources_by_topic(project: Project) -> dict[str, list[Source]]:
    """The sources by topic; topics and sources are sorted by name."""
    by_name = sorted(project.sources.values(), key=attrgetter("name"))
    topics = sorted({label for source in by_name for label in topic_labels(source.topic)})
    return {topic: [source for source in by_name if topic in topic_labels(source.topic)] for topic in topics}


def _inputs_text(source: Source) -> str:
    if source.join:
        return f"sources {' and '.join(map(str, source.join.sides))}"
    return f"source {' and '.join(source.input_names)}"


def _place_text(source: Source) -> str:
    return f"{'folder' if source.files else 'Delta table'} {source.place}"


def _of_files(project: Project) -> list[Source]:
    return sorted((source for source in project.sources.values() if source.reads_files), key=attrgetter("name"))


def _derived(project: Project) -> list[Source]:
    return sorted((source for source in project.sources.values() if source.is_derived), key=attrgetter("name"))


def _steps_of(source: Source) -> Iterator[str]:
    """What the source does with a record, in order."""
    if source.join:
        keys = " and ".join(
            f"{source.join.left.name}.{one} = {source.join.right.name}.{of}" for one, of in source.join.on.items()
        )
        yield f"{'joins' if source.join.type == 'inner' else f'{source.join.type} join'} on {keys}"
        within = source.join.within
        yield f"within {duration_text(within.before)} before and {duration_text(within.after)} after"
    if source.table:
        key = " and ".join(source.table.key) or RECORD_KEY
        if source.snapshot:
            yield f"a snapshot of {source.table.of} by {key} every {duration_text(source.snapshot.every)}"
        if source.upsert:
            reach = duration_text(source.upsert.within)
            yield f"an upsert of {source.table.of} by {key}: the greatest {source.upsert.version} within {reach}"
        if source.table.deleted:
            yield f"deleted if {source.table.deleted}"
    if source.branch:
        yield f"branch {source.branch}"
    for name, expression in source.explode.items():
        yield f"explodes {expression} into {name}"
    yield f"event time {source.event_time.expression}"
    if source.id and not source.takes_back:
        yield f"id {source.id}"
    if source.derived:
        yield f"derives {', '.join(source.derived)}"
    if source.where:
        yield f"where {source.where}"


def _steps_of_metric(metric: Metric) -> Iterator[str]:
    if metric.where:
        yield f"where {metric.where}"
    if metric.dimensions:
        yield f"by {', '.join(metric.dimensions)}"
    if not metric.window.is_hour:
        panes = f", kept in panes of {duration_text(metric.pane)}" if metric.pane else ""
        yield f"in {'' if metric.session else 'windows of '}{metric.window}{panes}"
    yield ", ".join(f"{name} = {measure}" for name, measure in metric.measures.items())


def _join(steps: Iterator[str]) -> str:
    return f": {'; '.join(' '.join(step.split()) for step in steps)}"


def _label(name: str, steps: Iterator[str]) -> str:
    """A label in quotes, in which Mermaid reads HTML: characters that mean something there are replaced."""
    text = "<br>".join(" ".join(step.split()).translate(_ESCAPED) for step in steps)
    return f"<b>{name}</b><br>{text}"


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "#quot;", "#": "#35;", "`": "#96;"})
