"""Runs Great Expectations over the rows of some hours, and gives its results hour by hour.

Windows are evaluated in the same way, each by its start, in the place of hours.

Rows are a pandas frame (results, facts) or a Spark DataFrame (events), with a column of the hour as text, such as
``2013-01-05T14:00Z``. An expectation on single rows is evaluated once for all hours, and its failing rows say which
hours fail. Any other is evaluated hour by hour. An expectation that evaluated nothing, or broke, is a failure here;
Great Expectations would let it pass. An expectation with a condition sees only the rows of the hours in which it holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.core import ExpectationValidationResult
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults
from pyspark.sql import DataFrame

from batch_layer.audit.built_in_expectations import Facts
from batch_layer.audit.declared_expectations import Check, UnsuitableExpectationError, unique_with
from batch_layer.audit.findings import ROWS_KEPT, Finding, find_by_hour, find_in_hour, note_not_applied
from batch_layer.audit.hourly_engine import HourlyEngine
from batch_layer.audit.joined_facts import OF, find_failing, join_facts
from batch_layer.audit.not_a_number import Counts, count_not_a_number, fail_not_a_number
from hourline_core.model.condition import holds
from hourline_core.model.hours import parse_window_time
from hourline_core.runtime.quirks import use_spark_engine


@dataclass
class Validation:
    """All findings over one set of rows."""

    findings: list[Finding] = field(default_factory=list)


class Validator:
    """Great Expectations without a project of its own, which keeps nothing."""

    def __init__(self) -> None:
        # Its defaults would leave a folder for reports in /tmp.
        stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
        self._context = gx.get_context(
            mode="ephemeral", project_config=DataContextConfig(store_backend_defaults=stores)
        )
        self._context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
        frames = self._context.data_sources.add_pandas("results")
        self._frames = frames.add_dataframe_asset("results").add_batch_definition_whole_dataframe("results")

    @cached_property
    def _events(self) -> BatchDefinition[Any]:
        """Created on first use, since it needs a Spark session. It would persist what it reads and never release it,
        so the caller persists.
        """
        use_spark_engine(HourlyEngine)
        events = self._context.data_sources.add_spark("events", persist=False)
        return events.add_dataframe_asset("events").add_batch_definition_whole_dataframe("events")

    def evaluate_facts(self, compared: Facts) -> Validation:
        """Evaluate the expectations on facts over their frame."""
        return self.evaluate_results(
            compared.frame, compared.checks, list(dict.fromkeys(compared.frame["hour"])), ["hour"]
        )

    def evaluate_all_facts(self, compared: Sequence[Facts]) -> list[Validation | None]:
        """What ``evaluate_facts`` gives for each of ``compared`` that fulfils its expectations, in less time. None for
        the others. Raises UnsharedResultError if each has to be asked, since an expectation cannot be evaluated.
        """
        passed: list[set[int]] = [set() for _ in compared]
        for joined in join_facts(compared):
            all_own = {id(check): own for check, own in zip(joined.checks, joined.own, strict=True)}
            for check, result in self._run(self._frames, joined.frame, joined.checks, [OF], "COMPLETE"):
                own = all_own[id(check)]
                for place in own.keys() - find_failing(result):
                    passed[place].add(id(own[place]))
        return [
            _pass(facts) if len(of_facts) == len(facts.checks) else None
            for facts, of_facts in zip(compared, passed, strict=True)
        ]

    def evaluate_results(
        self, frame: pd.DataFrame, checks: Sequence[Check], hours: Sequence[str], keys: list[str]
    ) -> Validation:
        """Evaluate ``checks`` over ``frame``, which has all rows of ``hours``. ``keys`` are the columns that
        identify a row. The first of them is the column of the hour (as text).
        """
        validation = Validation()
        sizes = {str(hour): int(size) for hour, size in frame[keys[0]].value_counts().items()}
        for condition, of_condition in _group_by_condition(checks).items():
            if condition is None:
                self._evaluate_results(frame, of_condition, hours, keys, validation)
            elif applying := _choose_hours(of_condition, hours, sizes, validation):
                here = frame[frame[keys[0]].isin(applying)]
                self._evaluate_results(here, of_condition, applying, keys, validation)
        return validation

    def _evaluate_results(
        self,
        frame: pd.DataFrame,
        checks: Sequence[Check],
        hours: Sequence[str],
        keys: list[str],
        validation: Validation,
    ) -> None:
        by_row, whole = _split(checks, validation, hours)
        # Only a frame of facts has bands: one row per hour.
        facts = {row["hour"]: row for row in frame.to_dict("records")} if any(check.band for check in by_row) else {}
        for check, result in self._run(self._frames, frame, by_row, keys, "COMPLETE"):
            validation.findings += find_by_hour(check, result, hours, frame, keys[0], facts)
        of_hours = dict(tuple(frame.groupby(keys[0]))) if whole else {}
        for hour in hours if whole else []:
            here = of_hours.get(hour, frame.iloc[:0])
            applicable = [check for check in whole if len(here) or not check.columns]
            for check, result in self._run(self._frames, here, applicable, keys, "COMPLETE"):
                validation.findings.append(find_in_hour(check, result, hour))
        _refuse_unknown(validation, frame, checks, hours, keys[0])

    def evaluate_events(
        self, events: DataFrame, checks: Sequence[Check], known: Counts, not_a_number: Counts, keys: list[str]
    ) -> Validation:
        """Evaluate ``checks`` over ``events``. ``known`` gives the number of events of each hour (under ``""``), and of
        each column's values that are not null; ``not_a_number`` that of each column's NaN. The first of ``keys`` is the
        column of the hour (as text).

        Rows stay in Spark: only some of those that fail are collected.
        """
        validation, hours = Validation(), sorted(known)
        sizes = {hour: of_hour[""] for hour, of_hour in known.items()}
        for condition, of_condition in _group_by_condition(checks).items():
            if condition is None:
                self._evaluate_events(events, of_condition, known, keys, validation)
            elif applying := _choose_hours(of_condition, hours, sizes, validation):
                here = events.where(events[keys[0]].isin(applying))
                self._evaluate_events(here, of_condition, {hour: known[hour] for hour in applying}, keys, validation)
        fail_not_a_number(validation.findings, not_a_number)
        return validation

    def _evaluate_events(
        self,
        events: DataFrame,
        checks: Sequence[Check],
        known: Mapping[str, Mapping[str, int]],
        keys: list[str],
        validation: Validation,
    ) -> None:
        hours = sorted(known)
        by_row, whole = _split(checks, validation, hours)
        again = []
        for check, result in self._run(self._events, events, by_row, keys, "BASIC"):
            if result.success:
                validation.findings += [Finding(hour, check, True, unexpected=0) for hour in hours if known[hour][""]]
            else:
                again.append(check)
        whole = self._expect_unique(events, whole, known, keys, validation)
        if again or whole:
            validation.findings += self._expect_by_hour(events, [*again, *whole], known, keys)
        filled = {hour for hour in hours if known[hour][""]}
        _refuse_nothing(
            validation,
            checks,
            hours,
            filled,
            lambda columns: {h: max(known[h].get(column, 1) for column in columns) for h in filled},
        )

    def _expect_unique(
        self,
        events: DataFrame,
        checks: Sequence[Check],
        known: Mapping[str, Mapping[str, int]],
        keys: list[str],
        validation: Validation,
    ) -> list[Check]:
        """Evaluate those of ``checks`` that say that columns are unique, for all hours at once: they are unique in each
        hour if they are unique together with the hour. Returns the checks that are left to be evaluated hour by hour.
        """
        together = {number: joined for number, check in enumerate(checks) if (joined := unique_with(check, keys[0]))}
        passed = set()
        for number, joined in together.items():
            ((_, result),) = self._run(self._events, events, [joined], keys, "BOOLEAN_ONLY")
            if result.success:
                passed.add(number)
        filled = [hour for hour in sorted(known) if known[hour][""]]
        validation.findings += [
            Finding(hour, checks[number], True, unexpected=0) for number in sorted(passed) for hour in filled
        ]
        return [check for number, check in enumerate(checks) if number not in passed]

    def _expect_by_hour(
        self, events: DataFrame, checks: Sequence[Check], known: Mapping[str, Mapping[str, int]], keys: list[str]
    ) -> list[Finding]:
        """Evaluate ``checks`` in each hour on its own. Only where one fails are rows looked at."""
        engine: HourlyEngine = self._events.data_asset.datasource.get_execution_engine()
        findings: list[Finding] = []
        failing: dict[str, list[Check]] = {}
        hours = {hour: events.where(events[keys[0]] == hour) for hour in sorted(known)}
        with engine.sharing(events, keys[0]) as shared:
            for shared.hour, here in hours.items():
                applicable = [check for check in checks if known[shared.hour][""] or not check.columns]
                for check, result in self._run(self._events, here, applicable, keys, "BASIC"):
                    if result.success:
                        findings.append(find_in_hour(check, result, shared.hour))
                    else:
                        failing.setdefault(shared.hour, []).append(check)
        for hour, of_failing in failing.items():
            for check, result in self._run(self._events, hours[hour], of_failing, keys, "SUMMARY"):
                findings.append(find_in_hour(check, result, hour))
        return findings

    def _run(
        self,
        definition: BatchDefinition[Any],
        rows: pd.DataFrame | DataFrame,
        checks: Sequence[Check],
        keys: list[str],
        form: str,
    ) -> Iterable[tuple[Check, ExpectationValidationResult]]:
        """Each check with its result."""
        if not checks:
            return []
        suite = gx.ExpectationSuite(
            "audit", expectations=[check.build({"check": number}) for number, check in enumerate(checks)]
        )
        result_format = {
            "result_format": form,
            "unexpected_index_column_names": keys,
            "partial_unexpected_count": ROWS_KEPT,
        }
        validated = definition.get_batch({"dataframe": rows}).validate(suite, result_format=result_format)
        pairs = [
            (checks[config.meta["check"]], result)
            for result in validated.results
            if (config := result.expectation_config) and config.meta
        ]
        if len(pairs) != len(checks):
            raise RuntimeError(f"Great Expectations evaluated {len(pairs)} of {len(checks)} expectations")
        return pairs


def _pass(facts: Facts) -> Validation:
    """What is found of facts that fulfil each of their expectations."""
    hours = list(dict.fromkeys(facts.frame["hour"]))
    rows = {row["hour"]: row for row in facts.frame.to_dict("records")} if any(one.band for one in facts.checks) else {}
    result = ExpectationValidationResult(success=True, result={})
    findings = [find_by_hour(check, result, hours, facts.frame, "hour", rows) for check in facts.checks]
    validation = Validation([one for of_check in findings for one in of_check])
    _refuse_unknown(validation, facts.frame, facts.checks, hours, "hour")
    return validation


def _group_by_condition(checks: Sequence[Check]) -> dict[str | None, list[Check]]:
    """The expectations by their condition; under None, those that apply to every hour."""
    by_condition: dict[str | None, list[Check]] = {}
    for check in checks:
        by_condition.setdefault(check.when, []).append(check)
    return by_condition


def _choose_hours(
    checks: Sequence[Check], hours: Sequence[str], sizes: Mapping[str, int], validation: Validation
) -> list[str]:
    """The hours for which the condition of ``checks``, which is the same for all, holds. Those for which it does not
    are added to the findings. ``sizes`` are the numbers of rows.
    """
    applying = []
    for hour in hours:
        facts = {"rows": sizes.get(hour, 0), "hour_of_day": parse_window_time(hour).hour}
        if holds(checks[0].when or "", facts):
            applying.append(hour)
        else:
            validation.findings += [note_not_applied(check, hour, facts) for check in checks]
    return applying


def _split(checks: Sequence[Check], validation: Validation, hours: Sequence[str]) -> tuple[list[Check], list[Check]]:
    """The expectations to evaluate for all hours at once, and those to evaluate hour by hour. One that cannot be
    evaluated fails in every hour.
    """
    by_row: list[Check] = []
    whole: list[Check] = []
    for check in checks:
        try:
            check.build({})
            (by_row if check.by_row else whole).append(check)
        except UnsuitableExpectationError as error:
            validation.findings += [Finding(hour, check, False, f"it cannot be evaluated: {error}") for hour in hours]
    return by_row, whole


def _refuse_unknown(
    validation: Validation, frame: pd.DataFrame, checks: Sequence[Check], hours: Sequence[str], by: str
) -> None:
    """Turn into a failure what found NaN in ``frame``, and what was not evaluated. The column ``by`` has the hour."""
    fail_not_a_number(validation.findings, count_not_a_number(frame, by))
    _refuse_nothing(validation, checks, hours, set(frame[by]), lambda columns: _count_known_rows(frame, columns, by))


def _refuse_nothing(
    validation: Validation, checks: Sequence[Check], hours: Sequence[str], filled: set[str], known: Any
) -> None:
    """Turn into a failure what was not evaluated, or had only nulls to look at. ``filled`` are the hours that have
    rows.

    Great Expectations reports a column that is always null as fulfilling everything. An expectation that follows from
    declarations may allow nulls, and says so.
    """
    for check in checks:
        of_check = {
            finding.hour: number for number, finding in enumerate(validation.findings) if finding.check is check
        }
        for hour in hours:
            if hour not in of_check and (hour in filled or not check.columns):
                validation.findings.append(Finding(hour, check, False, "it was not evaluated"))
        if check.origin != "user" or not check.needs_values:
            continue
        for hour, rows in known(check.columns).items():
            if rows == 0 and hour in of_check:
                words = f"there is nothing to evaluate: {', '.join(check.columns)} is always null"
                validation.findings[of_check[hour]] = Finding(hour, check, False, words)


def _count_known_rows(frame: pd.DataFrame, columns: list[str], by: str) -> dict[str, int]:
    """By hour (the column ``by``), the number of rows in which one of ``columns`` is not null. It is empty if there is
    no such column, which is reported already.
    """
    if not set(columns) <= set(frame.columns):
        return {}
    counts = frame[columns].notna().any(axis=1).groupby(frame[by]).sum()
    return {str(hour): int(count) for hour, count in counts.items()}
