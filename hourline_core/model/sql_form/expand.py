"""Replaces a metric's ``sql`` by the keys that it means."""

from collections.abc import Collection, Mapping

from hourline_core.model.base import describe
from hourline_core.model.source import Source
from hourline_core.model.yaml_files import Document, KeyPath, Mistake

KEY = "sql"
_SAID = {"source", "window", "where", "dimensions", "measures"}
"""What a statement says. It need not say the window, since SQL has no zones."""


def expand_sql(document: Document, sources: Mapping[str, Source], of_user: Collection[str] = ()) -> None:
    """Replace ``sql`` of a metric's document by ``source``, ``window``, ``where``, ``dimensions`` and ``measures``.

    ``sources`` are the declared ones by name, and ``of_user`` the names of user-defined measures. Each key gets the
    line of its part of the statement. Mistakes are added to the document, which is unreadable then.
    """
    if KEY not in document.content:
        return
    sql = document.content.pop(KEY)
    if not isinstance(sql, str):
        _add_mistake(document, (KEY,), f"got {describe(sql)}, allowed is one statement: SELECT … FROM … GROUP BY …")
        return
    from hourline_core.model.sql_form.keys import StatementKeys  # Its parser takes 0.3 s to import.

    keys = StatementKeys(sql, sources, of_user)
    for key in _SAID if keys.has_window else _SAID - {"window"}:
        if key in document.content:
            _add_mistake(document, (key,), "got it beside sql, whose statement says it: leave it out")
    for mistake in keys.mistakes:
        document.mistakes.append(Mistake(_line(document, mistake.line), (KEY,), str(mistake)))
    document.readable = document.readable and not document.mistakes
    document.lines |= {path: _line(document, line) for path, line in keys.lines.items()}
    document.content = keys.values | document.content


def _line(document: Document, line: int) -> int:
    """The line in the file of a line in the statement. Only a literal block (`|`) keeps its lines."""
    first = document.blocks.get((KEY,))
    return document.lines[(KEY,)] if first is None else first + line - 1


def _add_mistake(document: Document, path: KeyPath, text: str) -> None:
    document.mistakes.append(Mistake(document.lines[path], path, text))
    document.readable = False
