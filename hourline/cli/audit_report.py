"""Prints what a trial of expectations has found."""

import json
from typing import TYPE_CHECKING, Any

from hourline.cli.output import say, say_table
from hourline.cli.problems import tell_parameters
from hourline_core.model.hours import hour_text
from hourline_core.model.value_text import value_text

if TYPE_CHECKING:
    from batch_layer.audit.declared_expectations import Check
    from batch_layer.audit.findings import Finding
    from batch_layer.audit.trial import Trial


def say_trial(trial: "Trial") -> None:
    """Print the hours that would not pass, each expectation with its number of hours, and the summary."""
    failing = [finding for finding in trial.findings if not finding.success]
    if failing:
        say_table(
            ["hour (UTC)", "would be", "expectation", "of", "found", "bounds"],
            [
                (
                    finding.hour.replace("T", " ").removesuffix("Z"),
                    _name_outcome(finding),
                    finding.check.type,
                    _tell_rows(finding.check),
                    _describe_found(finding),
                    _describe_bounds(finding),
                )
                for finding in sorted(failing, key=lambda one: (one.hour, not one.blocks))
            ],
        )
        say("")
    say_table(
        ["expectation", "of", "applied to", "not applied to", "failed in"],
        [
            (check.type, _tell_rows(check), line["applied"], line["not_applied"], line["failed"])
            for check, line in _count_by_expectation(trial)
        ],
        right=["applied to", "not applied to", "failed in"],
    )
    say("")
    blocked, warned = (len(trial.hours_that_would_be(outcome)) for outcome in ("blocked", "warned"))
    say(f"{blocked:,} of {len(trial.hours):,} hours would be blocked, {warned:,} published with a warning")


def trial_as_json(kind: str, name: str, trial: "Trial") -> dict[str, Any]:
    """The same for programs. ``kind`` is metric or source."""
    return {
        kind: name,
        "first": hour_text(trial.hours[0]),
        "last": hour_text(trial.hours[-1]),
        "hours": len(trial.hours),
        "blocked": len(trial.hours_that_would_be("blocked")),
        "warned": len(trial.hours_that_would_be("warned")),
        "expectations": [line for _, line in _count_by_expectation(trial)],
        "findings": [
            {
                "hour": finding.hour,
                "outcome": _name_outcome(finding),
                **_describe_check(finding.check),
                "found": finding.found,
                "observed": finding.observed,
                "lower": finding.lower,
                "upper": finding.upper,
                "unexpected": finding.unexpected,
                "rows": [json.loads(row) for row in finding.rows],
            }
            for finding in trial.findings
            if not finding.success
        ],
    }


def _tell_rows(check: "Check") -> str:
    """The columns that an expectation is about, and which rows it is on if it is not on all."""
    columns, condition = ", ".join(check.columns), check.parameters.get("row_condition")
    return f"{columns} where {condition}" if condition else columns


def _name_outcome(finding: "Finding") -> str:
    return "passed" if finding.success else "blocked" if finding.blocks else "warned"


def _describe_found(finding: "Finding") -> str:
    """What was found in words, with the values of the first row that failed."""
    row = json.loads(finding.rows[0]) if finding.rows and finding.observed is None else {}
    values = ", ".join(f"{name}: {value_text(row[name])}" for name in finding.check.columns if name in row)
    return f"{finding.found}, such as {values}" if values and values != finding.found else finding.found


def _describe_bounds(finding: "Finding") -> str:
    """The bounds in words; of an expectation without bounds, its parameters."""
    lower, upper = (None if value is None else f"{value:,.6g}" for value in (finding.lower, finding.upper))
    if lower is not None or upper is not None:
        return f"at most {upper}" if lower is None else f"at least {lower}" if upper is None else f"{lower} to {upper}"
    return tell_parameters(finding.check.parameters)


def _count_by_expectation(trial: "Trial") -> "list[tuple[Check, dict[str, Any]]]":
    """Each expectation, with the numbers of hours that it was applied to, was not applied to, and failed in."""
    lines: dict[str, tuple[Check, dict[str, Any]]] = {}
    for finding in trial.findings:
        described = _describe_check(finding.check)
        numbers = {"applied": 0, "not_applied": 0, "failed": 0}
        _, line = lines.setdefault(json.dumps(described, default=str), (finding.check, {**described, **numbers}))
        line["applied" if finding.applied else "not_applied"] += 1
        line["failed"] += not finding.success
    return list(lines.values())


def _describe_check(check: "Check") -> dict[str, Any]:
    return {
        "expectation": check.type,
        "about": ", ".join(check.columns),
        "parameters": dict(check.parameters),
        "origin": check.origin,
        "severity": check.severity,
        "when": check.when,
        "unit": check.unit,
    }
