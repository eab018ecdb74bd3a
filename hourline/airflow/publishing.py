"""What the recomputing DAGs have in common after the command: which hours of which assets are final now, and the
report.
"""

from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from hourline.airflow.commands import hourline, log
from hourline.airflow.settings import Settings


def recompute_and_tell(settings: Settings, *arguments: str) -> dict[str, Any]:
    """Run a command that recomputes, and let the asset of each metric say which of its hours are final now, each as a
    partition of its own.

    To be called in a task with ``settings.assets`` as its outlets. Returns what is blocked, and the reports; raises
    what ``hourline`` does.
    """
    context: Any = get_current_context()
    # What an earlier try has published before it was killed counts, too.
    found = hourline(settings, *arguments, "--since", context["dag_run"].start_date.isoformat(timespec="microseconds"))
    assets = {metric: asset for metric, asset in settings.assets.items() if found["published"].get(metric)}
    for metric, asset in assets.items():
        context["outlet_events"][asset].add_partitions(found["published"][metric])
    # Of an outlet that nothing was added to, Airflow would say that the run's own partition of it has changed.
    context["task"].outlets = list(assets.values())
    return {"blocked": found["blocked"], "reports": found["reports"]}


def report_task(settings: Settings, pool: str) -> Any:
    """The task that ends a recompute: it links the reports, and fails when an hour did not pass its audit."""

    @task(pool=pool, retries=0)
    def report(recomputed: dict[str, Any]) -> None:
        """Link the audit's reports; fail if an hour is blocked."""
        for page in recomputed["reports"]:
            log.info("the audit's report: %s", page)
        if recomputed["blocked"]:
            hours = "; ".join(f"{metric}: {', '.join(hours)}" for metric, hours in recomputed["blocked"].items())
            raise AirflowFailException(
                f"blocked by the audit, so that readers keep what they had: {hours}; `hourline quality --blocked` says why"
            )

    return report
