"""What a recount has found: how many values agree, and the first that does not."""

from typing import TYPE_CHECKING

from hourline.cli.output import say, say_table
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.model.value_text import value_text

if TYPE_CHECKING:
    from batch_layer.recount.recount import RecountedHour

_LISTED = 3
"""The maximum number of hours that are listed. Of more, the first and the last are shown."""


def report_recount(recounted: list["RecountedHour"]) -> None:
    """Print a line for each metric, and the first difference with the command that computes its hour again."""
    by_metric: dict[str, list[RecountedHour]] = {}
    for one in recounted:
        by_metric.setdefault(one.metric, []).append(one)
    rows = []
    for metric, hours in sorted(by_metric.items()):
        cells, differing = (sum(counts) for counts in zip(*((h.cells, len(h.differences)) for h in hours), strict=True))
        rows.append((metric, _in_words(hours), cells, cells - differing))
    say_table(["metric", "hours", "values", "agree"], rows, right=["values", "agree"])
    first = next((one for one in recounted if one.differences), None)
    if first is None:
        say("all values agree")
        return
    difference = first.differences[0]
    dimensions = ", ".join(f"{name} {value_text(value)}" for name, value in difference.dimensions.items())
    values = [value_text(value) for value in (difference.published, difference.recounted)]
    say("")
    say_table(
        ["metric", "hour", "dimensions", "measure", "published", "recounted"],
        [(first.metric, hour_text(first.hour), dimensions, difference.measure, *values)],
        title=f"the first of {sum(len(one.differences) for one in recounted):,} difference(s)",
    )
    start, end = hour_text(first.hour), hour_text(first.hour + HOUR)
    say(f"to compute this hour again: `hourline recompute --from {start} --to {end} --metric {first.metric}`")


def _in_words(hours: list["RecountedHour"]) -> str:
    texts = [hour_text(one.hour) for one in hours]
    return ", ".join(texts) if len(texts) <= _LISTED else f"{len(texts):,} from {texts[0]} to {texts[-1]}"
