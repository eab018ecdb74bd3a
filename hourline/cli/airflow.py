"""``airflow up``, ``down``, ``status`` and ``run``: Hourline's own Airflow, which schedules the recomputes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hourline
from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load, load_settings_alone
from hourline.cli.output import note, say, say_json, say_table
from hourline.cli.stop_signals import interrupt_on_sigterm, stop_on_signal
from hourline.exit_status import MISTAKE

if TYPE_CHECKING:
    from hourline_core.runtime.airflow.health import AirflowStatus

app = typer.Typer(
    name="airflow",
    help="Hourline's own Airflow, which schedules the recomputes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def up(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Start Airflow with the project's DAGs in the background. This includes its scheduler, UI, API and PostgreSQL."""
    declared = load(project, workspace)
    from hourline_core.runtime.airflow.configuration import ADMIN, password_file
    from hourline_core.runtime.background import AIRFLOW, start

    with interrupt_on_sigterm():
        starting = f"{declared.name}: starting Airflow and its database, which takes about half a minute"
        waiting = "waiting for another `airflow up`, which is starting it"
        url = start(declared, AIRFLOW, lambda: note(starting), lambda: note(waiting))
    say(f"up: Airflow at {url}; user {ADMIN}, password in {password_file(declared)}; `hourline airflow down` stops it")


@app.command()
def down(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Stop Airflow and its running tasks. Nothing is lost: the next run recomputes what they did not publish."""
    declared = load_settings_alone(project, workspace)
    from hourline_core.runtime.background import AIRFLOW, stop

    say("down" if stop(declared, AIRFLOW) else "nothing was running")


@app.command()
def run(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    ready_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run Airflow in the foreground until Ctrl-C. This is for a service manager such as systemd."""
    declared = load(project, workspace)
    from hourline_core.runtime.airflow.configuration import ADMIN, password_file
    from hourline_core.runtime.airflow.stack import Airflow
    from hourline_core.runtime.background import announce
    from hourline_core.runtime.lease import lease

    with (
        stop_on_signal("stopping Airflow") as stop,
        lease(declared.workspace, "airflow"),
        Airflow(declared, dag_folder(), note, stop.is_set) as airflow,
    ):
        note(f"Airflow is at {airflow.url}; user {ADMIN}, password in {password_file(declared)}; Ctrl-C stops it")
        if ready_file:
            announce(ready_file, airflow.url)
        while not stop.wait(1):
            airflow.keep_running()
    note("stopped")


@app.command()
def status(project: ProjectFolder = Path(), workspace: Workspace = None, format: Format = ReportFormat.TEXT) -> None:
    """Show the health of Airflow, its database and the DAGs. The exit status is 1 if one of them is not healthy."""
    declared = load_settings_alone(project, workspace)
    from hourline_core.runtime.airflow.health import airflow_status

    report = airflow_status(declared)
    if format is ReportFormat.JSON:
        say_json(report.as_json())
    else:
        _say_status(report)
    if not report.healthy:
        raise typer.Exit(MISTAKE)


def dag_folder() -> Path:
    """The DAG files: beside this package's other files in an installed wheel, `dags` in a checkout."""
    installed = Path(hourline.__file__).parent / "airflow" / "dags"
    return installed if installed.exists() else Path(hourline.__file__).parents[1] / "dags"


def _say_status(report: "AirflowStatus") -> None:
    if report.url is None:
        say("Airflow does not run; `hourline airflow up` starts it")
        return
    say(f"Airflow at {report.url} (process {report.pid})")
    parts = [(part.name, part.health, str(part.pid or ""), part.megabytes) for part in report.parts]
    say_table(["part", "health", "process", "memory (MB)"], parts, right=["process", "memory (MB)"])
    say("")
    rows = [(dag.id, "paused" if dag.paused else "active", dag.last_run, dag.next_run) for dag in report.dags]
    say_table(["DAG", "is", "last run", "next run (UTC)"], rows)
    for error in report.errors:
        say("")
        say(error)
