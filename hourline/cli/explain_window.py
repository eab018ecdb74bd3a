"""``explain --window``: what a window's numbers are made of, as one page."""

from typing import TYPE_CHECKING

from hourline.cli.output import number_text, say, say_heading, say_table
from hourline_core.ledger.missing_hours import MissingHours
from hourline_core.model.hours import moment_text
from hourline_core.model.value_text import value_text

if TYPE_CHECKING:
    from serving_layer.reports.windows import WindowExplanation


def say_window(explained: "WindowExplanation") -> None:
    """Print it."""
    cell = "".join(f", {name} {value_text(value)}" for name, value in explained.dimensions.items())
    say_heading(
        f"{explained.metric}{cell}, {moment_text(explained.window_start)} to {moment_text(explained.window_end)} "
        f"UTC ({explained.window}): ",
        explained.state,
        "" if explained.closed else ", not closed yet",
    )
    if explained.description:
        say(explained.description)
    say("")
    if explained.state == "missing":
        hours = [(one.hour, explained.closed) for one in explained.hours if one.state == "missing"]
        command = MissingHours.of(explained.merged_from, hours).command or "hourline recompute"
        say(f"no answer: an hour of it is missing; `{command}` computes it")
    else:
        say_table(
            ["measure", "value", "declared as"],
            [
                (name, number_text(value), explained.declared.measures[name])
                for name, value in explained.measures.items()
            ],
            right=["value"],
        )
    say("")
    measures = list(explained.measures)
    say_table(
        ["hour (UTC)", "state", *measures],
        [
            (f"{one.hour:%Y-%m-%d %H:%M}", one.state, *(number_text(one.measures[name]) for name in measures))
            for one in explained.hours
        ],
        right=measures,
    )
    say("")
    say(f"`hourline explain {explained.merged_from} HOUR` explains one of these hours")
