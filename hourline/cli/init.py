"""``init``: creates a small project that works, or an empty one."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.output import say
from hourline.initialise import initialise


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    empty: Annotated[
        bool, typer.Option("--empty", help="Without examples: only settings, and folders for the declarations.")
    ] = False,
) -> None:
    """Create a small project that works."""
    for path in initialise(folder, empty=empty):
        say(f"  {path}")
    if empty:
        say("Next: write sources/NAME.yaml, metrics/NAME.yaml and tests/NAME.yaml there; `hourline check` checks them")
        return
    say(
        f"Next: cd {shlex.quote(str(folder))} && hourline up && hourline replay events.jsonl --source pageviews "
        "&& hourline query 'FROM hours ORDER BY ALL'"
    )
