"""The schedule of Airflow's runs, and Hourline's own Airflow: ``schedule:`` and ``airflow:`` of the settings."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import pydantic
from croniter import CroniterError, croniter
from pydantic import AfterValidator, BeforeValidator

from hourline_core.model.base import Declaration, describe, refuse, suggest
from hourline_core.model.times import Duration, Moment

_CRON_FIELD = re.compile(
    r"(?:[0-9*/,-]|(?i:sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))+", re.ASCII
)
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*", re.ASCII)


def _cron(text: str) -> str:
    fields = text.split()
    if len(fields) != 5 or not all(_CRON_FIELD.fullmatch(field) for field in fields):
        raise refuse(
            f"got {describe(text)}, allowed are the five fields of cron: minute, hour, day of month, month, "
            "day of week, such as '5 * * * *'"
        )
    try:
        croniter(text, _SOME_DAY).get_next()
    except CroniterError:
        raise refuse(
            f"got {describe(text)}, which never comes: allowed are minutes 0-59, hours 0-23, days 1-31, months 1-12, "
            "days of the week 0-7"
        ) from None
    return " ".join(fields)


def _words(value: object) -> object:
    if isinstance(value, str):
        raise refuse(f"got {describe(value)}, allowed is a list of words, such as [./page.sh, --urgent]")
    if isinstance(value, list | tuple) and (value[:1] in ([""], ("",)) or any("\0" in str(word) for word in value)):
        raise refuse(
            "got a list with an empty first word or a NUL character, allowed is a program and its arguments, "
            "such as [./page.sh, --urgent]"
        )
    return value


def _timezone(name: str) -> str:
    if name not in available_timezones() - {"Factory", "localtime"}:
        hint = suggest(name, available_timezones())
        raise refuse(f"got {describe(name)}, allowed are names such as UTC or Europe/Berlin{hint}")
    return name


def _postgresql(url: str) -> str:
    # The URL is never shown: its password is a secret.
    try:
        parts = urlsplit(url)
        whole = (
            parts.scheme in ("postgresql", "postgres") and parts.hostname and parts.port != 0 and parts.path.strip("/")
        )
    except ValueError:
        whole = None
    if not whole or parts.netloc.count("@") > 1 or not _ESCAPED.fullmatch(parts.netloc):
        raise refuse(
            "got something else, allowed is postgresql://user:password@host:port/database; "
            "in user and password, write @ as %40, : as %3A, / as %2F, % as %25"
        )
    return f"postgresql://{url.partition('://')[2]}"


Cron = Annotated[str, AfterValidator(_cron), pydantic.Field(json_schema_extra={"examples": ["5 * * * *"]})]


class ScheduleSettings(Declaration):
    """When Airflow recomputes hours and maintains tables, and how it treats failures."""

    cron: Cron = "5 * * * *"
    """When the hourly recompute runs. Hours should have closed by then. The next run recomputes hours that are still
    open.
    """

    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"
    """The IANA time zone of `cron` and `maintenance`. The hours of metrics are always in UTC."""

    start: Moment | None = None
    """The time of the first run. It is required with `catch_up`."""

    catch_up: bool = False
    """Whether Airflow makes up for each missed run since `start`. Without it, the next run does the work of all missed
    runs.
    """

    retries: Annotated[int, pydantic.Field(ge=0, le=1000)] = 3
    """The maximum number of retries of a failed task. A task is not retried after an error that a retry cannot fix."""

    retry_delay: Duration = timedelta(minutes=1)
    """The time before the first retry. Each further retry waits longer."""

    deadline: Duration = timedelta(minutes=45)
    """The time from the due time of an hourly run to an alert, if the run has not finished."""

    alert: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    """The command that Hourline runs for late and failed runs: a list of words such as `[./page.sh, data-team]`. It
    runs in the project's folder, and gets the alert as its last argument.
    """

    maintenance: Cron = "30 3 * * *"
    """When the tables are compacted and vacuumed."""

    @pydantic.model_validator(mode="after")
    def _require_start(self) -> "ScheduleSettings":
        if self.catch_up and self.start is None:
            raise refuse(
                "got catch_up without a start, allowed is catch_up with a start, such as 2026-01-31T00:00:00Z",
                "start",
            )
        return self


class AirflowSettings(Declaration):
    """The Airflow that `hourline airflow up` starts."""

    database: Annotated[str, AfterValidator(_postgresql)] | None = pydantic.Field(default=None, repr=False)
    """The URL of a PostgreSQL database for Airflow's metadata. If left out, Hourline runs a PostgreSQL in the
    workspace. Keep secrets in the environment: `${NAME}`.
    """

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    """The port of Airflow's UI and API. If left out, a free port is chosen."""

    runs_kept: Duration = timedelta(days=90)
    """The minimum time for which runs and their logs are kept. Older ones are deleted once a day."""
