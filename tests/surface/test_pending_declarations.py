"""A declaration that was changed while the stream still runs on the old one: each command says that the change is pending,
and which command takes it up.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import serving_layer
from hourline import load_project
from hourline.cli import app
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import UsageError
from serving_layer.http.metric_query import MetricQuestion, metric_sql, parse_hours
from serving_layer.reports.cell import find_tables
from serving_layer.reports.lineage import explain_number
from speed_layer.commit.source_tables import open_source_tables
from tests.support.visits import FIELDS, TILES, Visit, Visits, hour

NOT_STARTED = (
    "metric 'loads' has changed; it answers by its older declaration until the speed layer starts again "
    "(`hourline down`, `hourline up`)"
)
STARTED = (
    "metric 'loads' has changed; it answers by its older declaration until {} are recomputed (`hourline recompute`)"
)
ASKS: dict[str, Callable[[serving_layer.Connection], object]] = {
    "there is no column 'long' yet": lambda connection: connection.sql("SELECT long FROM loads"),
    "there is no column 'LONG' yet": lambda connection: connection.sql("SELECT hour FROM loads_states WHERE LONG"),
    "metric 'loads' has no dimension 'long' yet": lambda connection: explain_number(
        connection, "loads", hour(0), {"long": "true"}
    ),
    "metric 'loads' has no measure 'least' yet": lambda connection: metric_sql(
        connection, find_tables(connection, "loads"), MetricQuestion(parse_hours(None, None), measures=["least"])
    ),
}


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    """Two hours, the first of them blocked and the second final."""
    visits = Visits(tmp_path)
    (visits.project.root / "metrics/unseen.yaml").unlink()
    visits.project = load_project(visits.project.root)
    visits.start()
    visits.micro_batch(Visit(0, "home", 5), Visit(1, "home", 900))
    visits.publish(0, 1, blocked=[0])
    return visits


def change(site: Visits, old: str, new: str) -> None:
    """Change the metric in the YAML."""
    file = site.project.root / "metrics/loads.yaml"
    file.write_text(file.read_text().replace(old, new))
    site.project = load_project(site.project.root)


def command(site: Visits, *arguments: str) -> str:
    """What a command says, on both streams."""
    return CliRunner().invoke(app, [*arguments, "--project", str(site.project.root)], catch_exceptions=False).output


@pytest.mark.parametrize("said", ASKS)
def test_a_question_for_a_new_column_says_that_it_is_pending(site: Visits, said: str) -> None:
    with serving_layer.connect(site.project) as connection, pytest.raises(UsageError) as error:
        ASKS[said](connection)
    assert "yet" not in str(error.value), "nobody has declared it"
    change(site, "slow: ms > 100]", "slow: ms > 100, long: ms > 500]")
    change(site, "worst: max(ms)", "worst: max(ms), least: min(ms)")
    with serving_layer.connect(site.project) as connection, pytest.raises(UsageError) as error:
        ASKS[said](connection)
    assert str(error.value) == f"{said}: {NOT_STARTED}"


def test_a_new_field_of_a_source_is_not_archived_yet(site: Visits) -> None:
    file = site.project.root / "sources/visits.yaml"
    file.write_text(file.read_text().replace("at: string", "at: string, country: string"))
    site.project = load_project(site.project.root)
    with serving_layer.connect(site.project) as connection, pytest.raises(UsageError) as error:
        connection.sql("SELECT country FROM events_visits")
    assert str(error.value) == (
        "there is no column 'country' yet: it is a new field of 'visits', archived once the speed layer starts again "
        "(`hourline down`, `hourline up`)"
    )


def test_each_command_says_that_a_change_is_pending_and_what_takes_it_up(site: Visits) -> None:
    commands = ("plan", "quality", "status", "recompute")
    assert not [name for name in commands if "has changed" in command(site, name)]
    change(site, "ms > 100", "ms > 200")
    for name in commands:
        assert NOT_STARTED in command(site, name).splitlines(), name
    assert "No hour needs a recompute. A declaration is pending." in command(site, "plan")


def test_once_the_speed_layer_has_started_they_name_the_recompute_and_the_blocked_hours(site: Visits) -> None:
    change(site, "ms > 100", "ms > 200")
    changed = AggregationPlan(site.source, site.project.metrics["loads"], TILES)
    site.source_tables = open_source_tables(site.layout, site.source, FIELDS, [site.aggregation, changed])
    site.sequence = site.source_tables.first_sequence
    site.micro_batch(Visit(4, "home", 5))
    older = "; 1 hour(s) of the older one are blocked, and are not recomputed any more"
    assert STARTED.format("its 2 missing hour(s)") + older in command(site, "plan").splitlines()
    assert STARTED.format("its 2 missing hour(s)") + older in command(site, "status").splitlines()
    site.aggregation = changed
    site.cutoffs.clear()
    site.publish(0, blocked=[0])
    said = command(site, "quality").splitlines()
    blocked = "; 1 hour(s) of the new one are blocked (`hourline quality --blocked`)"
    assert STARTED.format("its 2 missing hour(s)") + blocked + older in said


def test_a_metric_over_one_with_new_panes_says_what_it_waits_for(site: Visits) -> None:
    (site.project.root / "metrics/minutes.yaml").write_text("from: loads\nmeasures: [visits]\nwindow: 10m\n")
    change(site, "source: visits", "source: visits\nwindow: 5m")
    waits = (
        "metric 'loads' has changed; it, and 'minutes' over it, answer by its older declaration until the speed layer "
        "starts again (`hourline down`, `hourline up`)"
    )
    for name in ("plan", "status"):
        assert waits in command(site, name).splitlines(), name
    assert waits in command(site, "query", "SELECT sum(visits) FROM minutes").splitlines()
    with serving_layer.connect(site.project) as connection:
        with pytest.raises(UsageError) as error:
            connection.sql("SELECT window_start FROM minutes")
        assert not connection.pending_in("FROM quality")
    assert str(error.value) == f"there is no column 'window_start' yet: {waits}"
