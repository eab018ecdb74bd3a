"""Opens a project for queries."""

from pathlib import Path

from hourline_core.ledger.power_cut import mend_after_power_cut
from hourline_core.model import Project, load_project
from serving_layer.at_least.form import WAIT_SECONDS, AtLeast
from serving_layer.connection import Connection


def connect(
    project: str | Path | Project,
    workspace: str | Path | None = None,
    *,
    strict: bool = False,
    as_of: str | None = None,
    degraded: bool = False,
    since: str | None = None,
    at_least: AtLeast | None = None,
    wait: float = WAIT_SECONDS,
) -> Connection:
    """Open a project (its folder, or a Project) for queries. Neither Spark nor Java is needed.

    ``workspace`` is the folder of its tables, if it is not the one in the settings. ``strict`` refuses answers that use
    hours that are missing, blocked or incomplete. ``as_of`` is the token of an earlier answer, or a time as ISO text
    (UTC unless it has an offset). ``since`` is the same; the view ``changes`` says how the results differ from those of
    that time. ``degraded`` answers what it can if tables are damaged; see ``Connection.damage``.

    ``at_least`` waits, for ``wait`` seconds at most, until the records that it names are counted: ``{("flights", 0):
    9977}`` or ``"now"``; see ``Connection.wait_until_counted``, which also says what it raises.

    Raises DeclarationError, TableError, and UsageError when there is no answer of that time, or not any more.
    """
    if not isinstance(project, Project):
        project = load_project(Path(project), workspace=Path(workspace) if workspace else None)
    mend_after_power_cut(project)
    connection = Connection(project, strict=strict, as_of=as_of, degraded=degraded, since=since)
    if at_least is not None:
        try:
            connection.wait_until_counted(at_least, wait)
        except BaseException:
            connection.close()
            raise
    return connection
