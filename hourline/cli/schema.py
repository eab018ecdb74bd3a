"""``schema``: prints the JSON Schema of the YAML files."""

import json
from typing import Annotated

import typer

from hourline.cli.options import require_known
from hourline.cli.output import say_raw


def schema(
    kind: Annotated[
        str | None, typer.Argument(help="settings, source, lookup, metric, sink or test. If left out, all.")
    ] = None,
) -> None:
    """Print the JSON Schema of the YAML files, for editors."""
    from hourline_core.model import json_schema

    if kind is not None:
        require_known("kind of file", kind, ["settings", "source", "lookup", "metric", "sink", "test"])
    say_raw(json.dumps(json_schema(kind), indent=2))
