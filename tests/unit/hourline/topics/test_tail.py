"""What `topics tail` refuses before it asks Kafka."""

from typer.testing import CliRunner

from hourline.cli import app


def test_the_last_records_are_as_many_as_memory_holds() -> None:
    refused = CliRunner().invoke(app, ["topics", "tail", "taps", "--last", "10001"])
    assert (refused.exit_code, "less than or equal to 10000" in refused.output) == (2, True), refused.output
    allowed = CliRunner().invoke(app, ["topics", "tail", "taps", "--last", "10000", "--project", "/nowhere"])
    assert "less than" not in allowed.output
