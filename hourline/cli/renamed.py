"""Commands that have other names now. They are hidden, and say the new one."""

from typing import Annotated

import typer

from hourline_core.errors import UsageError


def publish(
    words: Annotated[list[str] | None, typer.Argument()] = None,
    accept: Annotated[list[str] | None, typer.Option("--accept")] = None,
    reason: Annotated[str, typer.Option("--reason")] = "…",
    project: Annotated[str | None, typer.Option("--project")] = None,
    workspace: Annotated[str | None, typer.Option("--workspace")] = None,
) -> None:
    """See ``accept``."""
    what = " ".join([*(accept or []), *(words or [])]) or "PROBLEM"
    raise UsageError(f'`publish --accept` is called `accept` now: `hourline accept {what} --reason "{reason}"`')
