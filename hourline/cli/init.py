"""``init``: creates a small project that works."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.output import say
from hourline.initialise import initialise


def init(folder: Annotated[Path, typer.Argument(help="The folder to create.")]) -> None:
    """Create a small project that works."""
    for path in initialise(folder):
        say(f"  {path}")
    say(
        f"Next: cd {shlex.quote(str(folder))} && hourline up && hourline replay events.jsonl --source pageviews "
        "&& hourline query 'FROM hours ORDER BY ALL'"
    )
