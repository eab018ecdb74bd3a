"""Writes a suggestion as YAML, with what was seen beside each line."""

import json
import re
from collections.abc import Iterator
from typing import Any

from batch_layer.audit.suggestions.history import SuggestedHistory
from batch_layer.audit.suggestions.suggest import Suggestion
from hourline_core.model import Metric, Source
from hourline_core.model.base import Declaration
from hourline_core.model.hours import HOUR, hour_text

_PLAIN = re.compile(r"(?!(?:null|NULL|Null)$)[A-Za-z_][\w./-]*", re.ASCII)


def write_suggestion(declaration: Source | Metric, suggestion: Suggestion) -> str:
    """YAML for the file of ``declaration``, or for ``--expectations`` of ``hourline audit``."""
    return "\n".join(_write_lines(declaration, suggestion)) + "\n"


def _write_lines(declaration: Source | Metric, suggestion: Suggestion) -> Iterator[str]:
    kind, state = ("source", "closed") if isinstance(declaration, Source) else ("metric", "published")
    first, last = suggestion.hours[0], suggestion.hours[-1]
    seen = f"{len(suggestion.hours):,} {state} hours with {suggestion.rows:,} rows"
    yield f"# For {kind} '{declaration.name}', from {seen}."
    yield "# Try it on them:"
    within = f"--from {hour_text(first)} --to {hour_text(last + HOUR)}"
    yield f"#   hourline audit {kind}:{declaration.name} {within} --expectations FILE"
    yield f"# Then put it into {kind}s/{declaration.name}.yaml. Add `severity: warn` to what must not block an hour."
    history = _write_history(suggestion.history)
    if suggestion.volume is None:
        yield history
    else:
        yield f"volume:  # {suggestion.volume_seen}"
        for name, value in _read_declared(suggestion.volume).items():
            if name != "history":
                yield f"  {name}: {_write_flow(value)}"
        yield f"  {history}"
    if suggestion.expectations:
        yield "expectations:"
    for one in suggestion.expectations:
        yield f"  - {one.expectation.type}: {_write_flow(one.expectation.parameters)}  # {one.seen}"
        if one.expectation.when is not None:
            yield f"    when: {_write_flow(one.expectation.when)}"


def _write_history(suggested: SuggestedHistory) -> str:
    if suggested.history is None:
        return f"# history: {suggested.seen}"
    return f"history: {_write_flow(_read_declared(suggested.history, 'severity', 'width'))}  # {suggested.seen}"


def _read_declared(declaration: Declaration, *always: str) -> dict[str, Any]:
    """What differs from the defaults, and what is ``always`` shown."""
    fields = type(declaration).model_fields
    return {
        name: value
        for name in fields
        if (value := getattr(declaration, name)) != fields[name].get_default(call_default_factory=True)
        or name in always
    }


def _write_flow(value: Any) -> str:
    """``value`` in YAML's flow style, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_write_flow(key)}: {_write_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_write_flow, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else _quote(value)
    return json.dumps(value)


def _quote(text: str) -> str:
    """In double quotes, which YAML has from JSON. Hourline would take ${…} for a variable."""
    quoted = json.dumps(text, ensure_ascii=False).replace("${", "$${")
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)
