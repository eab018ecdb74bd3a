"""What a trial of expectations prints."""

from datetime import UTC, datetime

import pytest

from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.findings import Finding
from batch_layer.audit.trial import Trial
from hourline.cli.audit_report import say_trial


@pytest.mark.parametrize("success", [True, False])
def test_expectations_on_other_rows_of_one_column_are_told_apart(
    capsys: pytest.CaptureFixture[str], success: bool
) -> None:
    kind = "expect_column_values_to_be_between"
    checks = [
        Check(kind, {"column": "n", "min_value": 1}),
        Check(kind, {"column": "n", "min_value": 2, "row_condition": "`page` == 'home'"}),
    ]
    findings = [Finding("2024-03-01T10:00Z", check, success, "2 of 3 rows") for check in checks]
    say_trial(Trial([datetime(2024, 3, 1, 10, tzinfo=UTC)], findings))
    told = [line.split(kind)[1] for line in capsys.readouterr().out.splitlines() if kind in line]
    assert ["n where `page` == 'home'" in line for line in told] == [False, True] * (1 if success else 2)
