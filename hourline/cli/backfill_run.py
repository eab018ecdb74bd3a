"""A backfill with its progress on the terminal, for ``backfill`` and ``import``."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from hourline.cli.output import note, say
from hourline.cli.recompute_progress import recompute_progress
from hourline.cli.recompute_report import (
    arrivals_in_words,
    report_decoded,
    report_left_out,
    report_published,
    report_waiting,
)
from hourline.exit_status import INTERRUPTED

if TYPE_CHECKING:
    from batch_layer.backfill import Backfill
    from batch_layer.plan import PlannedHour
    from batch_layer.publish import Recomputed


def run_backfill(planned: "Backfill", command: str) -> "list[Recomputed]":
    """Recompute what is left of a backfill, with its progress. ``command`` is what runs it, for `hourline status`.
    Raises typer.Exit when it is interrupted.
    """
    every = hours_of(planned.wanted)
    done = every - hours_of(planned.left)
    if done != every:
        metrics = len({item.metric for item in planned.left})
        note(f"recomputing {len(every - done):,} hour(s) of {metrics} metric(s){arrivals_in_words(planned.left)}")
    try:
        with recompute_progress("backfill") as move:

            def on_left_out(items: list["PlannedHour"]) -> None:
                report_left_out(items)
                done.update(hours_of(items))

            def on_published(recomputed: "Recomputed") -> None:
                report_published(recomputed)
                done.update(recomputed.hours)

            outcome = planned.run(
                on_waiting=report_waiting,
                on_left_out=on_left_out,
                on_published=on_published,
                on_decoded=report_decoded,
                on_progress=move,
                command=command,
            )
    except KeyboardInterrupt:
        note(f"interrupted: {len(done):,} of {len(every):,} hours are done; the same command continues")
        raise typer.Exit(INTERRUPTED) from None
    say(f"all {len(every | done):,} hours are done")
    return outcome


def hours_of(items: Iterable["PlannedHour"]) -> set[datetime]:
    """The hours of planned items, over all metrics."""
    return {item.hour for item in items}
