"""The tasks of the DAGs. Each function is called within a task, and raises what ``run_command`` raises."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hourline.airflow.commands import log, run_command, run_for_results
from hourline.airflow.settings import Settings
from hourline_core.model.hours import HOUR, hour_text

PARTITION_KEY = "%Y-%m-%dT%H:00:00"
"""The partition key of an hour (UTC), for strftime."""
_DAY = timedelta(days=1)


def plan_hours(settings: Settings) -> dict[str, Any] | None:
    """The result of `hourline plan`, and in the log whether this run's own hour has closed. None when there is nothing
    to recompute or to decode anew, no lookup with a newer version than that of hours, and no finding to record.

    A run of Airflow's backfill always recomputes its hour.
    """
    hour = _own_hour()
    planned = run_for_results(settings, "plan", *(("--hour", hour_text(hour)) if hour else ()))
    has_work = any(planned[name] for name in ("planned", "to_decode", "outdated_lookups", "findings"))
    return planned if has_work or _is_forced() else None


def recompute_hours(settings: Settings) -> dict[str, Any]:
    """Recompute what `hourline plan` lists; in a run of Airflow's backfill, the run's own hour.

    Returns what ``report_audit`` takes. Raises AirflowSkipException when there is no closed hour to recompute in a run
    of Airflow's backfill.
    """
    hour = _own_hour()
    if hour and _is_forced():
        return _recompute_range(settings, "recompute", hour_text(hour), hour_text(hour + HOUR), "--skip-open")
    return _outcome(_recompute(settings, "recompute"))


def backfill_day(settings: Settings) -> dict[str, Any]:
    """Recompute the closed hours of the day (UTC) of the run's partition. Returns what ``report_audit`` takes. Raises
    AirflowSkipException when there are none.
    """
    day = _own_partition()
    return _backfill(settings, day, day + _DAY)


def backfill_month(settings: Settings) -> dict[str, Any]:
    """The same for the month (UTC) of the run's partition."""
    first = _own_partition()
    return _backfill(settings, first, (first + 31 * _DAY).replace(day=1))


def recompute_range(settings: Settings) -> dict[str, Any]:
    """Recompute the closed hours of the range in the run's parameters ``from`` and ``to``; with ``include_open``, also
    the open ones. Returns what ``report_audit`` takes. Raises AirflowSkipException when there are none.
    """
    parameters = get_current_context()["params"]
    # A DAG file that was copied from an older version has no such parameter.
    open_hours = "--include-open" if parameters.get("include_open") else "--skip-open"
    now = "; with the param include_open, this DAG recomputes them now"
    options = (open_hours, *_chosen_metrics())
    return _recompute_range(settings, "backfill", parameters["from"], parameters["to"], *options, advice=now)


def report_audit(recomputed: dict[str, Any]) -> None:
    """Log where the audit's reports are, and what was found of the sources. Raises AirflowFailException when an hour
    did not pass its audit, or a finding of severity `fail` is open.
    """
    for page in recomputed["reports"]:
        log.info("the audit's report: %s", page)
    told = {
        severity: [
            f"{one['subject']}: {one['sentence']}" for one in recomputed["findings"] if one["severity"] == severity
        ]
        for severity in ("warn", "fail")
    }
    for sentence in told["warn"]:
        log.warning("found: %s", sentence)
    failures = [f"found: {sentence}; `hourline quality` says what to do" for sentence in told["fail"]]
    if recomputed["blocked"]:
        hours = "; ".join(f"{metric}: {', '.join(hours)}" for metric, hours in recomputed["blocked"].items())
        failures.append(
            f"blocked by the audit, so readers keep the previous results: {hours}; "
            "`hourline quality --blocked` says why"
        )
    if failures:
        raise AirflowFailException("\n".join(failures))


def maintain_tables(settings: Settings) -> None:
    """Run `hourline maintain`."""
    run_command(settings, "maintain")


def _own_partition() -> datetime:
    """When the day or month of this run's partition begins (UTC)."""
    context: Any = get_current_context()
    begin: datetime = context["partition_date"].astimezone(UTC)
    return begin


def _backfill(settings: Settings, first: datetime, end: datetime) -> dict[str, Any]:
    """Recompute the closed hours from ``first`` to ``end``. Returns and raises what ``_recompute_range`` does."""
    return _recompute_range(settings, "backfill", hour_text(first), hour_text(end), "--skip-open", *_chosen_metrics())


def _chosen_metrics() -> list[str]:
    """The options for the metrics in the run's parameters."""
    return [word for metric in get_current_context()["params"]["metrics"] or [] for word in ("--metric", metric)]


def _recompute_range(
    settings: Settings, command: str, first: str, end: str, *options: str, advice: str = ""
) -> dict[str, Any]:
    """Run a command that recomputes the hours from ``first`` to ``end``, and log which open hours it has left out, with
    ``advice``. Returns what ``report_audit`` takes. Raises AirflowSkipException when there was no hour to recompute.
    """
    results = _recompute(settings, command, "--from", first, "--to", end, *options)
    if results["open"]:
        hours = "; ".join(f"{source}: {', '.join(hours)}" for source, hours in results["open"].items())
        log.warning(
            "left out, since not closed yet: %s; the hourly run recomputes them once they have closed%s", hours, advice
        )
    if not results["hours"]:
        nothing = f"nothing to recompute: no hour from {first} to {end} has closed yet"
        if not results["open"]:
            what = "metric that is in use" if results["pending"] else "source"
            nothing = "; ".join(
                [f"nothing to recompute: no {what} has an hour from {first} to {end}", *results["pending"]]
            )
            nothing += (
                f"; clear this task to run it again {'after that' if results['pending'] else 'once there are events'}"
            )
        raise AirflowSkipException(nothing)
    return _outcome(results)


def _recompute(settings: Settings, *command: str) -> dict[str, Any]:
    """Run a command that recomputes. Returns its results since the run began."""
    context: Any = get_current_context()
    # Counted from the run's start, to include what an earlier try blocked before it was killed.
    since = context["dag_run"].start_date.isoformat(timespec="microseconds")
    return run_for_results(settings, *command, "--since", since)


def _outcome(results: dict[str, Any]) -> dict[str, Any]:
    """What was blocked, the reports of the audits, and the open findings."""
    return {name: results[name] for name in ("blocked", "reports", "findings")}


def _is_forced() -> bool:
    """Whether this is a run of Airflow's backfill, which always recomputes its hour."""
    return bool(get_current_context()["dag_run"].run_type == "backfill")


def _own_hour() -> datetime | None:
    """The hour (UTC) of this run's partition. None: it was triggered without one."""
    moment = get_current_context().get("partition_date")
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0) if moment else None
