"""Prints a problem as a card: what fails, in which hours, what readers see meanwhile, and the commands. Many are rows
of a table.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from hourline.cli.output import say, say_facts, say_heading, say_table, shortest_path
from hourline_core.ledger.problems import tell_found
from hourline_core.model.value_text import value_text

if TYPE_CHECKING:
    from serving_layer.reports.problems import QualityProblem

_CELLS = 60
"""The maximum number of characters of a strip."""
_HOUR = timedelta(hours=1)
_ROWS = 40
"""The maximum number of rows in the table of problems."""
_FOUND = 40
"""The maximum number of characters that the table shows of what was found."""


def say_problems(problems: "Sequence[QualityProblem]") -> None:
    """Print a row for each of the first problems, and how to see more of one."""
    say_table(
        ["problem", "state", "of", "expectation", "hours", "newest (UTC)", "found"],
        [
            (
                one.id,
                one.state,
                one.metric or one.source,
                ": ".join(filter(None, [one.about, one.expectation])),
                len({hour.hour for hour in one.hours}),
                one.last,
                _shorten(_found(one)),
            )
            for one in problems[:_ROWS]
        ],
        right=["hours"],
    )
    if len(problems) > _ROWS:
        say(f"… and {len(problems) - _ROWS:,} more; `--metric NAME` shows those of a metric, `--format json` all")
    say(f"`hourline quality --problem {problems[0].id}` shows one with its commands")


def _found(problem: "QualityProblem") -> str:
    by_hour = {one.hour: (one.found, one.observed) for one in problem.hours}
    return tell_found(by_hour.values()) or format_number(problem.hours[-1].observed)


def _shorten(text: str) -> str:
    return text if len(text) <= _FOUND else f"{text[: _FOUND - 1]}…"


def say_problem(problem: "QualityProblem") -> None:
    """Print a problem."""
    of = f"{problem.about}: {problem.expectation}" if problem.about else problem.expectation
    if problem.unit == "window":
        of = f"{of}, of windows"
    if problem.condition:
        of = f"{of}, when {problem.condition}"
    say_heading(f"{problem.id}  ", problem.state, f"{' (new)' * problem.new}  {problem.metric or problem.source}: {of}")
    newest = problem.hours[-1]
    has_bounds = newest.lower is not None or newest.upper is not None
    facts = {
        "means": problem.description,
        "owner": problem.owner,
        "more at": problem.link,
        "hours": tell_hours(problem),
        "": draw_strip(problem) if problem.first < problem.last else None,
        "expects": "" if has_bounds else tell_parameters(json.loads(problem.parameters or "{}")),
        "found": _found(problem),
        "usual": tell_usual(problem),
        "rows": tell_rows(problem),
        "readers": "; ".join(f"{count:,} × {what}" for what, count in problem.readers.items()),
        "since": problem.opened and f"{problem.opened:%Y-%m-%d %H:%M} UTC",
        "beside": "; ".join(f"{count:,} also blocked by {other}" for other, count in problem.beside.items()),
        "report": shortest_path(problem.report),
        "retry": problem.retry,
        "accept": problem.accept or problem.waits_for,
    }
    say_facts([(name, [text]) for name, text in facts.items() if text])


def tell_hours(problem: "QualityProblem") -> str:
    """``15, 2026-03-02 01:00 to 2026-03-03 05:00 UTC``, and the metrics if there are many."""
    count = len({one.hour for one in problem.hours})
    of = f" of {', '.join(problem.metrics)}" if problem.metric is None else ""
    if problem.first == problem.last:
        return f"{problem.first:%Y-%m-%d %H:%M} UTC{of}"
    return f"{count:,}, {problem.first:%Y-%m-%d %H:%M} to {problem.last:%Y-%m-%d %H:%M} UTC{of}"


def draw_strip(problem: "QualityProblem") -> str:
    """A character for each hour from the first to the last, or for several: ``█`` if it fails in one of them."""
    length = (problem.last - problem.first) // _HOUR + 1
    places = {(one.hour - problem.first) // _HOUR for one in problem.hours}
    cells = min(length, _CELLS)
    filled = {place * cells // length for place in places}
    return "".join("█" if place in filled else "·" for place in range(cells))


def tell_parameters(parameters: Mapping[str, object]) -> str:
    """The parameters of an expectation beside its columns, such as ``max_value: 10``."""
    columns = {"column", "column_A", "column_B", "column_list"}
    others = {name: value for name, value in parameters.items() if name not in columns}
    return ", ".join(f"{name}: {_write_value(value)}" for name, value in others.items())


def _write_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def tell_usual(problem: "QualityProblem") -> str:
    """The bounds of the newest hour, and the usual values."""
    newest, usual = problem.hours[-1], problem.usual
    bounds = [
        f"at least {format_number(newest.lower)}" if newest.lower is not None else "",
        f"at most {format_number(newest.upper)}" if newest.upper is not None else "",
    ]
    told = [" and ".join(filter(None, bounds)) + " is expected"] if any(bounds) else []
    if usual is not None:
        told.append(f"{format_number(usual.low)} to {format_number(usual.high)} when it passes")
    return "; ".join(told)


def tell_rows(problem: "QualityProblem") -> str:
    """The number of failing rows, and some of them."""
    if not problem.failing_rows and not problem.rows:
        return ""
    told = [", ".join(f"{name}={value_text(value)}" for name, value in row.items()) for row in problem.rows]
    return f"{problem.failing_rows or len(problem.rows):,}" + (f", such as {'; '.join(told)}" if told else "")


def format_number(value: float | None) -> str:
    """A number as text. Empty for None."""
    return "" if value is None else f"{value:,.6g}"
