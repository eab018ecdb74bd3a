"""Commands that must fail, and a project to run them in."""

from tests.support.command_line import declared, failing  # noqa: F401 (fixtures)
