"""Each command that a message, a docstring or a page names is one that the command line takes as it stands there."""

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._click.exceptions import BadParameter, MissingParameter, UsageError

from hourline.cli import app

ROOT = Path(__file__).parents[3]
PACKAGES = ("hourline", "hourline_core", "speed_layer", "batch_layer", "serving_layer", "dags", "infra", "examples")
OTHERS = ("commands.md", "upgrade.md")
"""Pages with usage, and with commands of older versions."""
PAGES = [
    ROOT / "README.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr" and page.name not in OTHERS),
]
_COMMAND = re.compile(r"`(?:\w+=\S+ )*hourline ([^`]+)`")
_LINE = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*hourline ((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_INCOMPLETE = re.compile(r"Missing (argument|option)|Option '.*' requires an argument")
FILLED_IN = re.compile(r"X|[A-Z][A-Z_|]+|…|\[.*\]")
"""What stands for a value in a sentence."""


def commands_of(file: Path) -> Iterator[str]:
    """The commands in the texts of a module, as Python joins them. ``X`` stands for what is filled in."""
    for node in ast.walk(ast.parse(file.read_text())):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [one.value if isinstance(one, ast.Constant) else "X" for one in parts]
        text = "".join(one for one in texts if isinstance(one, str))
        yield from _COMMAND.findall(text)


def commands_on(page: Path) -> tuple[set[str], set[str]]:
    """The commands in the sentences of a page, and those in its blocks."""
    prose, *blocks = re.split(r"^ *```", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = {" ".join(found.split()) for part in (prose, *blocks[1::2]) for found in _COMMAND.findall(part)}
    of_shell = [part for part in blocks[::2] if part.startswith(("sh\n", "console\n"))]
    return named, {found.replace("\\\n", " ") for part in of_shell for found in _LINE.findall(part)}


def words_of(text: str) -> list[str]:
    """The words that a shell gives to a command: up to a comment, a pipe or the like."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(takewhile(lambda word: not set(word) <= set("|&;<>()"), lexer))


def refusal_of(text: str) -> str | None:
    """Why the command line does not take ``text``. None: it does."""
    command: Any = typer.main.get_command(app)
    words = [word for word in words_of(text) if word != "[OPTIONS]"]
    if words and FILLED_IN.fullmatch(words[0]):
        return None
    while getattr(command, "commands", None) and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    if not words or words in (["--help"], ["-h"]):
        return None  # It names a command.
    options: dict[str, Any] = {option: parameter for parameter in command.params for option in parameter.opts}
    for place, word in enumerate(words):
        # A kind of value has one of these. Another kind takes any text.
        option = options.get(words[place - 1]) if place else None
        if FILLED_IN.fullmatch(word):
            words[place] = _value_of(option)
    try:
        command.make_context(command.name, words)
    except (MissingParameter, BadParameter, UsageError) as error:
        return str(error.format_message())
    except typer.Exit:  # as --version does
        return None
    return None


def _value_of(option: Any) -> str:
    kind = getattr(option, "type", None)
    if choices := getattr(kind, "choices", None):
        return str(getattr(choices[0], "value", choices[0]))
    return {"integer": "1", "integer range": "1", "float": "1"}.get(getattr(kind, "name", ""), "x")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_command_line_takes_each_command_that_a_message_names(package: str) -> None:
    found = {command for file in (ROOT / package).rglob("*.py") for command in commands_of(file)}
    assert package in ("batch_layer", "dags", "infra", "examples") or len(found) > 2
    assert {text: said for text in sorted(found) if (said := refusal_of(text))} == {}


def test_the_command_line_takes_each_command_on_a_page() -> None:
    named, shown = (set().union(*of) for of in zip(*map(commands_on, PAGES), strict=True))
    assert len(named) > 50 and len(shown) > 50
    assert {text: said for text in sorted(shown) if (said := refusal_of(text))} == {}
    # A sentence may name an option alone.
    refused = {text: said for text in sorted(named) if (said := refusal_of(text))}
    assert {text: said for text, said in refused.items() if not _INCOMPLETE.match(said)} == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recompute --form X", "No such option: --form"),
        ("quality --problems X", "No such option: --problems"),
        ("querry X", "there is no command querry"),
        ("query X Y", "unexpected extra argument"),
        ("accept a1b2c3d4@7", "Missing option '--reason'"),
        ("backfill --from X", "Missing option '--to'"),
        ("query X --format pdf", "'pdf' is not one of"),
        ("speed --accept-loss", None),
    ],
)
def test_what_the_command_line_does_not_take_is_seen(text: str, said: str | None) -> None:
    refusal = refusal_of(text)
    assert refusal is None if said is None else said in str(refusal)
