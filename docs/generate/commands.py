"""The page of all commands, from the typer application."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

from docs.generate.markdown import code, first_sentence, heading, link, prose, table
from docs.generate.markdown import page as whole_page
from hourline import exit_status
from hourline.cli import app

_INTRODUCTION = """
`hourline COMMAND --help` prints the same on a terminal, and `hourline --version` prints the version. Hours and times
are in UTC.
"""

Context = Any
"""A command in its place below the others; typer has no public type for it."""

_EXTRA = re.compile(r"(.*?)(?:\s+\[([^\[\]]*)\])?", re.DOTALL)
"""A help text, and in brackets what typer adds to it: whether it is required, its default and its variable."""


def page() -> str:
    """The page as Markdown."""
    whole = get_command(app)
    commands = list(_commands(whole, whole.make_context("hourline", [], resilient_parsing=True)))
    overview = [
        (link(code(context.command_path), context.command_path), first_sentence(context.command.help))
        for context in commands
    ]
    parts = [text for context in commands for text in _part(context)]
    return whole_page(
        "Commands",
        "hourline/cli",
        prose(_INTRODUCTION),
        table(["command", "does"], overview),
        *parts,
        *_exit_statuses(),
    )


def _commands(command: object, context: Context) -> Iterator[Context]:
    """The context of each command, in the order of ``hourline --help``."""
    if not isinstance(command, TyperGroup):
        yield context
        return
    for name in command.list_commands(context):
        inner = command.commands[name]
        if not inner.hidden:
            yield from _commands(inner, inner.make_context(name, [], parent=context, resilient_parsing=True))


def _part(context: Context) -> list[str]:
    """What there is to say of one command."""
    parameters = context.command.params
    usage = context.command.get_usage(context).removeprefix("Usage: ")
    return [
        heading(2, context.command_path),
        f"```sh\n{' '.join(usage.split())}\n```",
        prose(context.command.help),
        table(["argument", "meaning"], _rows(context, (one for one in parameters if isinstance(one, TyperArgument)))),
        table(["option", "meaning"], _rows(context, (one for one in parameters if isinstance(one, TyperOption)))),
    ]


def _rows(context: Context, parameters: Iterable[TyperArgument | TyperOption]) -> Iterator[tuple[str, str]]:
    """How each parameter is written, and what it means; hidden ones are left out."""
    for parameter in parameters:
        if record := parameter.get_help_record(context):
            yield code(record[0]), _meaning(record[1])


def _meaning(text: str) -> str:
    """``text`` with what typer adds in brackets as sentences."""
    match = _EXTRA.fullmatch(text)
    assert match
    sentences = [match[1]]
    for extra in (match[2] or "").split("; "):
        kind, _, value = extra.partition(": ")
        if kind == "default":
            sentences.append(f"Default: {value[1:-1] if value.startswith('(') else code(value)}.")
        elif kind == "env var":
            sentences.append(f"Environment variable: {code(value)}.")
        elif kind:
            sentences.append(f"{kind.capitalize()}.")
    return " ".join(sentences)


def _exit_statuses() -> list[str]:
    """The part about exit statuses, from the texts under the constants."""
    rows = [("0", "The command has done its work.")]
    for constant, text in pairwise(ast.parse(inspect.getsource(exit_status)).body):
        match constant, text:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(meaning))):
                if isinstance(value := getattr(exit_status, name), int):  # not a set of them
                    rows.append((str(value), meaning))
    return [heading(2, "Exit statuses"), table(["status", "meaning"], rows)]
