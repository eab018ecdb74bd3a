"""Readline for a prompt: a history that is kept, and completion."""

import os
import readline
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "DISTINCT"]
_KEPT_LINES = 1_000


@contextmanager
def line_editing(names: Callable[[], list[str]]) -> Iterator[None]:
    """Within the block, ``input`` has the history of earlier sessions, and Tab completes ``names``."""
    history = history_file()
    with suppress(OSError):
        readline.read_history_file(history)
    matches: list[str] = []

    def complete(text: str, number: int) -> str | None:
        nonlocal matches
        if number == 0:
            matches = sorted({name for name in [*names(), *_WORDS] if name.casefold().startswith(text.casefold())})
        return matches[number] if number < len(matches) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()[]=<>+-*/%'\"")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    try:
        yield
    finally:
        readline.set_history_length(_KEPT_LINES)
        with suppress(OSError):  # A home that cannot be written to is no reason to fail.
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
            history.chmod(0o600)


def history_file() -> Path:
    """In the user's own state folder. A workspace may be shared, or read-only for the user."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "hourline" / "shell_history"
