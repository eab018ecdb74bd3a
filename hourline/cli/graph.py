"""``graph``: prints the topology of a project. Needs neither Spark nor Java."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, load
from hourline.cli.output import say_raw


class GraphFormat(StrEnum):
    """An indented list, or a Mermaid flowchart."""

    TEXT = "text"
    MERMAID = "mermaid"


def graph(
    project: ProjectFolder = Path(),
    format: Annotated[
        GraphFormat, typer.Option("--format", "-f", help="Print an indented list, or a Mermaid flowchart.")
    ] = GraphFormat.TEXT,
) -> None:
    """Print the topology: topics, their sources, and metrics."""
    declared = load(project, None)
    from hourline_core.model.topology_text import topology_mermaid, topology_text

    say_raw(topology_text(declared) if format is GraphFormat.TEXT else topology_mermaid(declared))
