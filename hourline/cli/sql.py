"""``sql``: prints the views of a project for another DuckDB."""

from pathlib import Path

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import say_raw


def sql(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Print SQL that creates the same views in another DuckDB. Use it in DuckDB's command line, or in a BI tool."""
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.script import script

    with connect(declared) as connection:
        say_raw(script(connection))
