"""A reset of a metric, and maintenance, over the tables that a recompute left which failed before its first publication."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from batch_layer.maintenance import Maintenance
from hourline import load_project
from hourline_core.ledger.coverage_rows import COVERAGE_SCHEMA
from hourline_core.ledger.layout import EVENT_SCHEMA, REJECTED_SCHEMA, Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import ProgressRow, RecordCounts
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import PUBLISHED, STREAMED
from speed_layer.reset import MetricReset
from tests.support.project_files import write_project

NOW = datetime(2024, 4, 1, 10, tzinfo=UTC)
FILES = {
    "hourline.yaml": "name: shop",
    "sources/visits.yaml": "{topic: visits, format: json, event_time: at, fields: {at: timestamp}}",
    "metrics/views.yaml": "{source: visits, measures: {n: count}}",
}


def test_coverage_may_be_there_before_anything_was_published(tmp_path: Path) -> None:
    project = load_project(write_project(tmp_path, FILES), {})
    layout, source = Layout.of(project), project.sources["visits"]

    def create(uri: str, kind: str, schema: pa.Schema) -> None:
        open_or_create(uri, {}, kind, schema, PUBLISHED if kind == "coverage" else STREAMED, kind)

    create(layout.events(source), "events", EVENT_SCHEMA)
    create(layout.rejected(source), "rejected", REJECTED_SCHEMA)
    create(layout.coverage, "coverage", COVERAGE_SCHEMA)
    progress = Progress(open_or_create(layout.progress(source), {}, "progress", PROGRESS_SCHEMA, STREAMED, "progress"))
    progress.finish([ProgressRow(1, "id", "visits", (), RecordCounts(), (), (), NOW, NOW, NOW)], {})
    assert list(Maintenance(project).run()) == []
    assert MetricReset(project, project.metrics["views"]).apply(NOW) == 2
