"""Who may import whom, tried out: reading works without Spark, Kafka, Airflow or Java, and declarations load without
any engine.

The static half of it is in pyproject.toml, for `lint-imports`.
"""

from tests.support.blocked_imports import DECLARING, READING, command_line, without


def test_declarations_load_without_any_engine() -> None:
    done = without(DECLARING, "import hourline_core.model, hourline_core.errors, hourline_core.model.hours")
    assert done.returncode == 0, done.stderr


def test_the_command_line_offers_help_without_any_engine() -> None:
    done = without(DECLARING, command_line("--help"))
    assert done.returncode == 0, done.stderr
    assert "recompute" in done.stdout


def test_what_is_blocked_is_blocked() -> None:
    assert "is blocked" in without(READING, "import speed_layer.speed_layer").stderr
