"""A synthetic project with any number of sources, metrics, hours and problems, whose tables are written by the
product's own commits, without Kafka and Spark.

Source ``s1`` has the metrics ``m1``, ``m1+sources``, … . Of each, all hours but the last two are final. Some
sources have late events or rejected records. Each problem is a rule of its own that blocks some hours.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from batch_layer.aggregate import MetricTiles
from batch_layer.publication import MetricPublication, Publication
from batch_layer.reports.overview import write_overview
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.ledger.report_pages import SHOWN, report_site
from hourline_core.ledger.source_clock import PartitionClock
from hourline_core.model import Metric, Project, Source, load_project
from hourline_core.model.natural_order import natural_key
from hourline_core.runtime.ports import free_ports
from serving_layer.connection import Connection
from serving_layer.reports.findings import find_findings
from serving_layer.reports.problems import find_problems
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from tests.support.project_files import write_project

END = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""The end of the newest hour."""
NOW = END + timedelta(minutes=30)
"""When somebody looks."""
LATE_HOUR = END - timedelta(hours=5)
"""The hour that late events revise."""
OPEN_HOURS = 2
KINDS = ("open", "shut")
EVENTS = 3
"""The number of events of each kind in an hour."""
_Declared = TypeVar("_Declared")
_FIELDS = pa.schema({"kind": pa.string()})
_TILES = pa.schema({"hour": TIMESTAMP, "kind": pa.string(), "n": pa.int64()})


@dataclass(frozen=True)
class Size:
    """How large a project is."""

    sources: int
    metrics: int
    hours: int
    """Of each source."""
    problems: int = 0
    audited: int = 0
    """The number of the newest hours whose findings are kept."""
    expectations: int = 3
    """Of each metric, beside those that fail."""


@dataclass
class ManySources:
    """The project, as it was written."""

    project: Project
    size: Size
    blocked: dict[str, set[datetime]] = field(default_factory=dict)
    """By metric."""


def write_many_sources(folder: Path, size: Size) -> ManySources:
    """Write the project in ``folder``."""
    written = ManySources(load_project(write_project(folder, _files(size))), size)
    sources: dict[str, Source] = _in_order(written.project.sources)
    metrics: dict[str, Metric] = _in_order(written.project.metrics)
    hours = [END - timedelta(hours=back) for back in range(size.hours, 0, -1)]
    findings = [_passed(metrics, hours[-size.audited :], size.expectations)] if size.audited else []
    findings += [_fail(number, metrics, hours, written.blocked) for number in range(size.problems)]
    staged = []
    for number, source in enumerate(sources.values()):
        aggregations = [
            AggregationPlan(source, metric, _TILES) for metric in metrics.values() if metric.source == source.name
        ]
        tables = open_source_tables(Layout.of(written.project), source, _FIELDS, aggregations)
        _commit(tables, 1, hours[:-1])
        for aggregation in aggregations:
            marks = dict.fromkeys(written.blocked.get(aggregation.metric.name, ()), "")
            tiles = MetricTiles(aggregation, hours[:-OPEN_HOURS], 1, tiles_of(hours[:-OPEN_HOURS]))
            staged.append(MetricPublication(stage_metric(written.project, tiles), marks))
        late = [LATE_HOUR] if _is_late(number) else []
        _commit(tables, 2, hours[-1:], late, rejected=7 * number if number % 5 == 4 else 0)
    Publication(written.project).publish(staged, pa.concat_tables([QUALITY_SCHEMA.empty_table(), *findings]), END)
    return written


def states_of(written: ManySources, source: str, last: int) -> list[str]:
    """The states of the ``last`` hours of a source, the newest first."""
    number = sorted(written.project.sources, key=natural_key).index(source)
    metrics = [name for name, metric in written.project.metrics.items() if metric.source == source]
    blocked = set[datetime]().union(*(written.blocked.get(name, ()) for name in metrics))

    def state(hour: datetime, back: int) -> str:
        if back < OPEN_HOURS:
            return "provisional"
        return "blocked" if hour in blocked else "revised" if hour == LATE_HOUR and _is_late(number) else "final"

    hours = (END - timedelta(hours=back + 1) for back in range(min(last, written.size.hours)))
    return [state(hour, back) for back, hour in enumerate(hours)]


def renew_reports(written: ManySources) -> Path:
    """Write the overview of the audits at NOW, as a publication does, and return its path."""
    with Connection(written.project, lambda: NOW) as connection:
        columns = ", ".join(name if name != "rows" else "NULL::VARCHAR[] AS rows" for name in QUALITY_SCHEMA.names)
        shown = f"SELECT {columns} FROM hourline.quality WHERE hour > '{(END - SHOWN).isoformat()}'"
        rows = connection.sql(shown).to_arrow_table().cast(QUALITY_SCHEMA)
        blocked, problems = connection.snapshot.sources_of_blocked, find_problems(connection)
        findings = [replace(one, opened=one.opened or NOW) for one in find_findings(connection)]
    site = report_site(written.project)
    return write_overview(site, written.project, rows, problems, blocked, NOW, findings=findings)


def tiles_of(hours: list[datetime]) -> pa.Table:
    """The tiles of a metric in ``hours``."""
    moments, kinds = [hour for hour in hours for _ in KINDS], list(KINDS) * len(hours)
    return pa.table([pa.array(moments, TIMESTAMP), kinds, pa.array([EVENTS] * len(moments), pa.int64())], _TILES)


def _is_late(number: int) -> bool:
    """Whether the source at this place, from 0, has late events."""
    return number % 3 == 2


def _in_order(declared: Mapping[str, _Declared]) -> dict[str, _Declared]:
    return {name: declared[name] for name in sorted(declared, key=natural_key)}


def _files(size: Size) -> dict[str, str]:
    """The declarations."""
    source = "topic: {0}\nfields:\n  kind: string\nevent_time: at\n"
    metric = "source: {0}\ndimensions: [kind]\nmeasures:\n  n: count\n"
    sources = [f"s{number}" for number in range(1, size.sources + 1)]
    metrics = {f"m{number}": sources[(number - 1) % len(sources)] for number in range(1, size.metrics + 1)}
    return {
        "hourline.yaml": f"name: many\nserve:\n  port: {free_ports(1)[0]}\n",
        **{f"sources/{name}.yaml": source.format(name) for name in sources},
        **{f"metrics/{name}.yaml": metric.format(of) for name, of in metrics.items()},
    }


def _commit(
    tables: SourceTables, sequence: int, hours: list[datetime], late: Sequence[datetime] = (), rejected: int = 0
) -> None:
    """One micro-batch with the events of ``hours`` and the ``late`` ones of others. Of ``hours``, only the newest has
    tiles: those of the others are published, and pruned.
    """
    for aggregation in tables.aggregations:
        name = aggregation.name
        tiles = tiles_of([*hours[-1:], *late])
        tables.append(tables.provisional[name], tables.provisional_schemas[name], tiles, sequence)
    each = len(KINDS) * EVENTS
    events = each * (len(hours) + len(late))
    clock = hours[-1] + timedelta(minutes=59)
    first = 10_000_000 * (sequence - 1)
    tables.finish(
        ProgressRow(
            sequence,
            "topic-id",
            tables.source.name,
            offsets=(OffsetsRead(0, first, first + events + rejected - 1),),
            counts=RecordCounts(records=events + rejected, accepted=events, rejected=rejected),
            hours=tuple(HourEvents(hour, each, each if hour in late else 0) for hour in [*late, *hours]),
            metrics=tables.written_metrics(),
            clock=clock,
            started=clock,
            finished=clock,
            partitions=(PartitionClock("topic-id", 0, clock, clock),),
        )
    )


def _passed(metrics: Mapping[str, Metric], hours: list[datetime], count: int) -> pa.Table:
    """The findings of audits that passed."""
    rows = duckdb.sql(f"""
        SELECT 0 AS publication, hour AS audited, source, metric, '' AS declaration, hour, 1 AS cutoff,
               'expect_column_values_to_be_between' AS expectation, 'field' || rule AS about,
               '{{"min_value": 0}}' AS parameters, 'user' AS origin, 'fail' AS severity, true AS success,
               true AS applied, (hash(hour, metric, rule) % 1000)::DOUBLE AS observed, 0.0 AS lower,
               NULL::DOUBLE AS upper, NULL::BIGINT AS unexpected, '' AS found, NULL::VARCHAR[] AS rows,
               NULL::VARCHAR AS condition, 'hour' AS unit
        FROM (SELECT unnest({[metric.source for metric in metrics.values()]}) AS source,
                     unnest({list(metrics)}) AS metric),
             range(TIMESTAMPTZ '{hours[0].isoformat()}', TIMESTAMPTZ '{END.isoformat()}', INTERVAL '1 hour') h(hour),
             range({count}) r(rule)""")
    return rows.to_arrow_table().select(QUALITY_SCHEMA.names).cast(QUALITY_SCHEMA)


def _fail(
    number: int, metrics: Mapping[str, Metric], hours: list[datetime], blocked: dict[str, set[datetime]]
) -> pa.Table:
    """The findings of a rule of its own, which fails in some hours and blocks them."""
    chosen = random.Random(number)  # noqa: S311 (the same hours each time)
    metric = list(metrics.values())[number % len(metrics)]
    failing = chosen.sample(hours[:-OPEN_HOURS], min(len(hours) - OPEN_HOURS, chosen.randint(1, 48)))
    blocked.setdefault(metric.name, set()).update(failing)
    rows = [
        {
            "audited": hour,
            "source": metric.source,
            "metric": metric.name,
            "hour": hour,
            "cutoff": 1,
            "expectation": "expect_column_values_to_be_between",
            "about": f"rule{number}",
            "parameters": '{"min_value": 0}',
            "origin": "user",
            "severity": "fail",
            "success": False,
            "applied": True,
            "lower": 0.0,
            "unexpected": 3,
            "found": "3 of 90 rows",
        }
        for hour in failing
    ]
    return pa.Table.from_pylist(rows, QUALITY_SCHEMA)
