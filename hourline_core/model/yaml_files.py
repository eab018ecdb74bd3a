"""Reading a YAML file into plain values, with the line of each.

Every scalar except null stays text: the declaration decides its type, not YAML. So ``topic: 2024``, ``name: on`` and
``spark.x: 1.10`` keep their text, and ``no`` is an allowed name for a field. What quotes make a text of is marked, so
that it is not taken for a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hourline_core.model.base import QuotedText
from hourline_core.model.environment import SubstitutionError, substitute

_NULL = "tag:yaml.org,2002:null"
_BOOLEANS = {"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f"}

KeyPath = tuple[str, ...]
"""The place of an item within a declaration, such as ``("measures", "worst")``."""


@dataclass(frozen=True)
class Mistake:
    """A mistake at ``path`` of a file, with a text that describes it."""

    line: int
    path: KeyPath
    text: str


@dataclass
class Document:
    """The content of a file. ``file`` is relative to the project. ``content`` is empty if the file is unreadable."""

    file: str
    content: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    blocks: dict[KeyPath, int] = field(default_factory=dict)
    """The line of the first character of each literal block (`|`)."""
    mistakes: list[Mistake] = field(default_factory=list)
    readable: bool = True

    def nearest(self, path: KeyPath) -> KeyPath:
        """The longest beginning of ``path`` that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return path

    def place(self, path: KeyPath = ()) -> str:
        """``file:line`` of the item at ``path``, or of the nearest item around it."""
        return f"{self.file}:{self.lines.get(self.nearest(path), 1)}"


def read_yaml(root: Path, file: Path, environ: Mapping[str, str]) -> Document:
    """Read one file of the project. Never raises for its content: mistakes are added to ``mistakes``."""
    document = Document(file.relative_to(root).as_posix())
    try:
        text = file.read_bytes().decode("utf-8-sig")
        node = YAML(typ="safe", pure=True).compose(text)
    except OSError as error:
        return _mark_unreadable(document, 1, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return _mark_unreadable(
            document, line, f"got the byte 0x{error.object[error.start]:02x}, allowed is text in UTF-8"
        )
    except (MarkedYAMLError, RecursionError) as error:
        return _mark_unreadable(document, *_describe_error(error))
    except YAMLError:
        bad = next((i for i, c in enumerate(text) if not (c.isprintable() or c in "\n\r\t")), 0)
        return _mark_unreadable(
            document,
            text.count("\n", 0, bad) + 1,
            f"got the control character {text[bad]!r}, allowed is printable text",
        )
    if node is not None and not isinstance(node, MappingNode):
        got = "a list" if isinstance(node, SequenceNode) else "text"
        return _mark_unreadable(document, node.start_mark.line + 1, f"got {got}, allowed is a mapping, `key: value`")
    if node is not None:
        document.content = _Reader(document, environ).value(node, ())
    return document


def _is_number_or_boolean(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip().lower() in _BOOLEANS
    return True


def _mark_unreadable(document: Document, line: int, text: str) -> Document:
    document.readable = False
    document.mistakes.append(Mistake(line, (), text))
    return document


def _describe_error(error: MarkedYAMLError | RecursionError) -> tuple[int, str]:
    if isinstance(error, RecursionError):
        return 1, "got lists and mappings hundreds deep, allowed are a few levels"
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "it cannot be parsed"
    if "'\\t'" in problem:
        advice = "indent with spaces"
    elif "another document" in problem:
        advice = "write one document per file"
    else:
        advice = "put text in quotes that has ': ', ' #', or a special character at its start"
    return (mark.line + 1 if mark else 1), f"this is not YAML ({problem}): {advice}"


class _Reader:
    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self.document = document
        self.environ = environ
        self.open_nodes: list[Node] = []

    def value(self, node: Node, path: KeyPath) -> Any:
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if any(node is other for other in self.open_nodes):
            self._add_mistake(
                node, path, "got an alias (*) for a value that contains it, allowed are aliases for others"
            )
            return None
        self.open_nodes.append(node)
        try:
            return self._mapping(node, path) if isinstance(node, MappingNode) else self._list(node, path)
        finally:
            self.open_nodes.pop()

    def _scalar(self, node: ScalarNode, path: KeyPath) -> str | None:
        if node.tag == _NULL:
            return None
        if node.style == "|":
            self.document.blocks[path] = node.start_mark.line + 2
        try:
            text = substitute(node.value, self.environ)
        except SubstitutionError as error:
            self._add_mistake(node, path, str(error))
            return str(node.value)
        # `key: ${NAME:}` is `key:` where NAME is not set.
        if node.value and not text:
            return None
        # A variable may need quotes because of its braces, and says nothing about the type.
        return QuotedText(text) if node.style and text == node.value and _is_number_or_boolean(text) else text

    def _mapping(self, node: Node, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, ScalarNode):
                self._add_mistake(key, path, "got a list or mapping as a key, allowed is text")
            elif key.value in values:
                earlier = self.document.lines[(*path, key.value)]
                self._add_mistake(
                    key, (*path, key.value), f"got the key a second time, allowed is once: see line {earlier}"
                )
            else:
                self.document.lines[(*path, key.value)] = key.start_mark.line + 1
                values[key.value] = self.value(item, (*path, key.value))
        return values

    def _list(self, node: Node, path: KeyPath) -> list[Any]:
        values = []
        for index, item in enumerate(node.value):
            values.append(self.value(item, (*path, str(index))))
            # Items are also registered by name: a list of dimensions becomes a mapping when it is validated.
            names = (
                [item]
                if isinstance(item, ScalarNode)
                else [key for key, _ in item.value]
                if isinstance(item, MappingNode)
                else []
            )
            for name in names:
                if isinstance(name, ScalarNode):
                    self.document.lines.setdefault((*path, name.value), name.start_mark.line + 1)
        return values

    def _add_mistake(self, node: Node, path: KeyPath, text: str) -> None:
        self.document.mistakes.append(Mistake(node.start_mark.line + 1, path, text))
