"""``python -m benchmarks.page`` writes FIGURES.md and figures.svg from the last figures of each benchmark."""

import importlib
from pathlib import Path

import matplotlib as mpl

from benchmarks.figures import COLUMNS, LAST, Result

mpl.use("svg")
from matplotlib import pyplot as plt

BENCHMARKS = [
    "speed",
    "formats",
    "freshness",
    "silence",
    "micro_batches",
    "recompute",
    "lookups",
    "joins",
    "sinks",
    "decoding",
    "queries",
    "windows",
    "growth",
    "start",
    "small_hours",
    "publications",
    "small_metrics",
    "memory",
    "large_hours",
    "idle",
    "many_sources",
]
PAGE, PLOT = "FIGURES.md", "figures.svg"

_HEAD = """\
# Figures

`make bench` (minutes) and `make bench-full` (some two and a half hours) write this page; do not edit it. A value is the
ratio of the median to the peer's median, both from one run on one machine. Without a peer, it is the median itself. The
spread is that of the rounds. Answers were checked before a time counted. Each heading describes its benchmark, and why
it is fair. [README.md](README.md) explains why figures miss their goals. If low and high are equal, there was one
round.

Of {goals} goals, {reached} are reached: {by_name}.

![the ratios beside their goals]({plot})
"""


def write(last: Path = LAST) -> None:
    """Write both files, beside the folder ``last``, for the benchmarks that have figures there."""
    results = [
        Result.model_validate_json(file.read_text()) for name in BENCHMARKS if (file := last / f"{name}.json").exists()
    ]
    _plot(results, last.with_name(PLOT))
    reached = {
        result.name: [bool(figure.reached) for figure in result.figures if figure.goal is not None]
        for result in results
    }
    goals, met = (sum(map(count, reached.values())) for count in (len, sum))
    by_name = ", ".join(f"{name} {sum(of)} of {len(of)}" for name, of in reached.items())
    parts = [_HEAD.format(plot=PLOT, goals=goals, reached=met, by_name=by_name)]
    for result in results:
        heading = (importlib.import_module(f"benchmarks.{result.name}").__doc__ or "").strip()
        parts.append(f"## {result.name}\n\n{heading}\n")
        parts.append(
            "\n".join(
                _line(cells) for cells in [COLUMNS, ["---"] * len(COLUMNS), *(figure.row for figure in result.figures)]
            )
            + "\n"
        )
        if result.notes:
            parts.append("\n".join(f"- {note}" for note in result.notes) + "\n")
        kind = "full" if result.full else "quick"
        taken = f"{result.taken:%Y-%m-%d %H:%M} UTC, {result.seconds:,.0f} s, commit {result.commit}"
        parts.append(f"*{kind} run, {taken}; {result.machine}*\n")
    last.with_name(PAGE).write_text("\n".join(parts), encoding="utf-8")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plot(results: list[Result], file: Path) -> None:
    """Draw the distance of each figure from its goal on a logarithmic axis. Left of 1, the goal is reached."""
    shown = [(result.name, figure) for result in results for figure in result.figures if figure.goal]
    plt.rcParams["svg.hashsalt"] = "hourline"
    figure, axes = plt.subplots(figsize=(11, 0.5 + 0.3 * len(shown)))
    for place, (_, one) in enumerate(shown):
        ends = [
            one.goal / end if one.at_least else end / one.goal for end in (one.value, *one.spread) if one.goal and end
        ]
        axes.barh(place, ends[0] - 1, left=1, color="tab:green" if one.reached else "tab:orange")
        axes.plot(sorted(ends[1:]), [place, place], color="black", linewidth=1)
    axes.set_yticks(range(len(shown)), [f"{name}: {one.what}" for name, one in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black")
    axes.set_xlabel("times the goal (left of 1: reached); lines: all rounds")
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    write()
