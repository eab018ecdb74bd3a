"""Events of a joined source are evaluated in the task that has joined them, where DuckDB computes all expressions."""

from pathlib import Path

import pyarrow as pa
import pytest

from hourline import Project, load_project
from hourline_core.compute.aggregation import plan_native_aggregation
from hourline_core.compute.projection import Projection
from hourline_core.model.scratch_columns import HEADERS, OUTCOME
from speed_layer.intake.native_records import NativeRecords, native_expressions
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "name: shop\n",
    "sources/orders.yaml": "topic: orders\nfields: {number: string, amount: int, at: timestamp}\nevent_time: at\n",
    "sources/payments.yaml": "topic: payments\nfields: {number: string, at: timestamp}\nevent_time: at\n",
    "sources/paid.yaml": "join: {left: orders, right: payments, on: number, within: 1h}\n",
    "metrics/large.yaml": "source: paid\nmeasures: {pairs: count, twice: sum(orders_amount * 2)}\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return load_project(write_project(tmp_path, FILES))


def native_of(project: Project) -> dict[str, str] | None:
    """The expressions of the joined source and its metric that a task evaluates."""
    source, metric = project.sources["paid"], project.metrics["large"]
    plan = plan_native_aggregation(source, metric)
    assert plan
    return native_expressions(source, None, Projection([plan]))


def test_a_task_evaluates_what_it_has_joined_and_nothing_of_a_record_that_is_not_taken(project: Project) -> None:
    native = native_of(project)
    assert native
    (column,) = native
    pairs = pa.table(
        {
            OUTCOME: ["accepted", "not_taken", "accepted"],
            HEADERS: pa.nulls(3, pa.map_(pa.string(), pa.binary())),
            "orders_amount": pa.array([4, 5, None], pa.int32()),
        }
    )
    evaluated = NativeRecords(project.sources["paid"], native).evaluate(pairs)
    assert evaluated.select([column, "orders_amount"]).to_pydict() == {
        column: [8, None, None],
        "orders_amount": [4, 5, None],
    }
    assert HEADERS not in evaluated.column_names, "they come from their text, as those of all sources"
