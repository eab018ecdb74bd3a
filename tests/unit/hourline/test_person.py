"""The person who decides something by a command."""

import os
import pwd

import pytest

from hourline.cli.person import current_person

VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_a_user_without_a_name_is_told_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid())
    assert current_person() == "user 4000000000"
    monkeypatch.setenv("LOGNAME", "ada")
    assert current_person() == "ada"
