"""Generates the pages of the reference from the code, so that they cannot go stale.

Each page has a module here, whose ``page`` function returns it as Markdown. The descriptions stand where the code is:
in docstrings of attributes and routes, in help texts, and beside the columns of a table.
"""

from collections.abc import Callable
from pathlib import Path

from docs.generate import commands, declarations, formats, http_api, tables, types

FOLDER = Path(__file__).parents[1] / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "settings-and-declarations.md": declarations.page,
    "types.md": types.page,
    "formats.md": formats.page,
    "commands.md": commands.page,
    "http-api.md": http_api.page,
    "tables.md": tables.page,
}
"""By file name in docs/reference, what returns its text."""
