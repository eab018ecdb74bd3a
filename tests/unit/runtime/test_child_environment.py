"""What a child of Hourline runs in does not come from the machine: locale, time zone, encodings, home, Java's options."""

import ast
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.child_environment import child_environment, home_folder, user_name
from hourline_core.java_options import SAME_EVERYWHERE, of_user
from hourline_core.runtime.java import find_java

CHECKOUT = Path(__file__).parents[3]
TURKISH = "-Duser.language=tr -Duser.country=TR -Duser.language.format=ar -Duser.extensions=u-nu-arab"
ELSEWHERE = "-Duser.region=EG -Duser.timezone=America/St_Johns -Dfile.encoding=ISO-8859-1 -Dsun.jnu.encoding=ASCII"
ODD = {
    **{"LANG": "tr_TR.UTF-8", "LC_ALL": "xx_YY", "LC_CTYPE": "C", "LANGUAGE": "tr", "TZ": "Asia/Kolkata"},
    **{"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii", "PYTHONWARNINGS": "error"},
    **{"PYTHONOPTIMIZE": "2", "PYTHONINSPECT": "1", "PYTHONHASHSEED": "random", "PYTHONINTMAXSTRDIGITS": "640"},
}
SAID = (
    "import locale, os, sys, time; from pathlib import Path; print(sys.flags.utf8_mode, sys.flags.optimize, "
    "sys.stdout.encoding, sys.getfilesystemencoding(), time.localtime(0)[:6], locale.getpreferredencoding(), "
    "sys.get_int_max_str_digits(), Path.home(), 'ö\u0131')"
)


@given(st.dictionaries(st.sampled_from(sorted(ODD)), st.just(None)))
def test_the_environment_of_a_child_is_the_same_whatever_that_of_its_parent_is(chosen: dict[str, None]) -> None:
    plain = {"PATH": "/bin", "HOME": "/home/ada", "PYTHONPATH": "/code", "KAFKA": "k:1"}
    assert child_environment({**plain, **{name: ODD[name] for name in chosen}}) == child_environment(plain)


def test_a_child_that_runs_python_has_its_locale_and_encodings() -> None:
    def said(environ: dict[str, str]) -> str:
        command = [sys.executable, "-c", SAID]
        return subprocess.run(command, env=environ, capture_output=True, check=True, encoding="utf-8").stdout

    odd = said(child_environment({**os.environ, **ODD}))
    assert odd == said(child_environment())
    assert odd.startswith("1 0 utf-8 utf-8 (1970, 1, 1, 0, 0, 0)")


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_a_child_that_runs_java_has_its_locale_whatever_the_environment_says(variable: str) -> None:
    environ = child_environment({**os.environ, variable: f"{TURKISH} {ELSEWHERE} -Dtheirs=kept"})
    command = [str(find_java()), *SAME_EVERYWHERE, *of_user("ada", "/home/a b"), "-XshowSettings:all", "-version"]
    told = subprocess.run(command, env=environ, capture_output=True, check=True, encoding="utf-8").stderr
    found = dict(re.findall(r"^ *([\w. ]+?) = (.*)$", told, re.MULTILINE))
    assert {found[f"default {kind}locale"] for kind in ("", "display ", "format ")} == {"English (United States)"}
    of = ("user.timezone", "file.encoding", "sun.jnu.encoding", "user.name", "user.home", "theirs")
    assert [found[name] for name in of] == ["UTC", "UTF-8", "UTF-8", "ada", "/home/a b", "kept"]


def test_a_user_without_a_name_has_one_for_java_and_a_home_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert (user_name(), home_folder({}), home_folder({"HOME": "/home/ada"})) == (
        "user-54321",
        "/nonexistent",
        "/home/ada",
    )


def test_each_process_is_started_with_an_environment_of_its_own() -> None:
    # The watchdog passes on what it was given. An alert runs a command of the user, in a task of Airflow.
    passed_on = {"hourline_core/runtime/watchdog.py", "hourline/airflow/alerts.py"}
    found = {
        str(file.relative_to(CHECKOUT))
        for package in ("hourline", "hourline_core", "speed_layer", "batch_layer", "serving_layer")
        for file in (CHECKOUT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen")
        and not any(keyword.arg == "env" for keyword in node.keywords)
    }
    assert found == passed_on
