"""Each command that a message, a docstring or a page names is one that there is, with options that it has."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from hourline.cli import app

ROOT = Path(__file__).parents[3]
PACKAGES = ("hourline", "hourline_core", "speed_layer", "batch_layer", "serving_layer")
_COMMAND = re.compile(r"`hourline ([^`]+)`")


def commands_of(file: Path) -> Iterator[str]:
    """The commands in the texts of a module, as Python joins them. ``X`` stands for what is filled in."""
    for node in ast.walk(ast.parse(file.read_text())):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [one.value if isinstance(one, ast.Constant) else "X" for one in parts]
        yield from _COMMAND.findall("".join(one for one in texts if isinstance(one, str)))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_message_names_a_command_and_options_that_there_are(package: str) -> None:
    found = {command for file in (ROOT / package).rglob("*.py") for command in commands_of(file)}
    assert package == "batch_layer" or len(found) > 2
    for text in found:
        command: Any = typer.main.get_command(app)
        arguments = shlex.split(re.sub(r"[\"']", "", text))
        while hasattr(command, "commands") and arguments and arguments[0] not in ("X", "--help"):
            assert arguments[0] in command.commands, text
            command = command.commands[arguments.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in arguments if word.startswith("-")} - {"-", "--help"} <= known, text
