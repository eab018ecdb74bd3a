"""What people read cannot control their terminal: data is shown with such characters escaped, on one line."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hourline.cli.output import note, say, say_facts, say_heading, say_raw, say_table

CONTROLS = [chr(code) for code in (*range(32), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))]
TEXTS = st.text(st.sampled_from([*CONTROLS, "é", "a", "\u200d", "[", "\\"]), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_no_text_for_people_controls_a_terminal(capsys: pytest.CaptureFixture[str], text: str) -> None:
    say_table([text, "b"], [[text, 1], [text, None]], title=text)
    say_heading(text, "final", text)
    say_facts([("fact", [text])])
    say(text.replace("\n", ""))
    note(text.replace("\n", ""))
    printed = capsys.readouterr()
    assert not [char for char in printed.out + printed.err if char in CONTROLS and char != "\n"]
    assert (printed.out.count("\n"), printed.err.count("\n")) == (7, 1)


def test_a_control_character_is_shown_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[31mb\u202e\nc")
    say_table(["x"], [["1\n2\t3"]])
    assert capsys.readouterr().out == "a\\x1b[31mb\\u202e\nc\nx      \n1\\n2\\t3\n"


def test_what_programs_read_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say_raw("a: |\n\tb\x1b")
    assert capsys.readouterr().out == "a: |\n\tb\x1b\n"
