"""``init``, ``check`` and ``schema``: making and checking declarations."""

import json
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, known, load
from hourline.cli.output import say


def register(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(init)
    app.command()(check)
    app.command()(schema)


def init(folder: Annotated[Path, typer.Argument(help="The folder to make.")]) -> None:
    """Make a small project that runs."""
    from hourline.initialise import initialise

    for path in initialise(folder):
        say(f"  {path}")
    say(
        f"Next: cd {folder} && hourline up && hourline replay events.jsonl --source pageviews && hourline query 'FROM hours ORDER BY ALL'"
    )


def check(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Check all declarations, each expression by Spark itself, each expectation by Great Expectations; nothing is run
    or written.
    """
    declared = load(project, workspace)
    from batch_layer.audit.check import unsuitable
    from hourline_core.compute.check import unresolved
    from hourline_core.errors import DeclarationError
    from hourline_core.runtime.spark import spark_session

    spark = spark_session(declared, "check", brief=True)
    try:
        mistakes = [*unresolved(spark, declared), *unsuitable(declared)]
    finally:
        spark.stop()
    if mistakes:
        raise DeclarationError("\n".join(mistakes))
    say(f"{declared.name}: {len(declared.sources)} source(s), {len(declared.metrics)} metric(s), no mistakes")


def schema(
    kind: Annotated[str | None, typer.Argument(help="settings, source or metric; all, if left out.")] = None,
) -> None:
    """Print the JSON Schema of the YAML files, for editors."""
    from hourline_core.model import json_schema

    if kind is not None:
        known("kind of file", kind, ["settings", "source", "metric"])
    say(json.dumps(json_schema(kind), indent=2))
