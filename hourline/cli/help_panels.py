"""The help of the whole command line: its commands in panels, each with one line that fits 80 columns.

Typer itself shows panels only if rich renders all help and all errors, with frames around them. An error here is one
sentence.
"""

from typing import Any

from typer.core import TyperGroup

_SPACING = 6
"""The columns around a command's name: Click's indentation, and what it leaves between the name and the text."""


class Panels(TyperGroup):
    """Commands that are listed under the panels they were registered in."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel, in the order of their first commands."""
        width = max(map(len, self.commands))
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or "Commands"
                line = command.get_short_help_str(formatter.width - _SPACING - width)
                panels.setdefault(panel, []).append((f"{name:<{width}}", line))
        for panel, lines in panels.items():
            with formatter.section(panel):
                formatter.write_dl(lines)
