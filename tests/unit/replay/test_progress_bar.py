"""What a replay shows of its progress on a terminal of 80 columns."""

import re

import pytest

from hourline.replay.progress_bar import progress_bar
from hourline.replay.sending import Progress
from hourline_core.formats.files.record import moment_of, rank_of

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_the_bar_fits_80_columns_and_claims_no_zone_for_a_text_without_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    times = iter([0.0])
    with progress_bar("taxi-rides-of-new-york", 13_367_760, lambda: next(times, 40.0)) as move:
        move(Progress(1_336_776, moment_of(rank_of("2013-01-05T14:00:07"))))
    *bars, line = [text for text in ESCAPES.sub("", capsys.readouterr().err).replace("\r", "\n").split("\n") if text]
    bar = bars[-1].rstrip()
    assert len(bar) <= 80
    assert " 1336776/13367760 " in bar
    assert bar.startswith("taxi-rides-of-n…")
    assert bar.endswith("33,419/s at 2013-01-05 14:00:07")
    assert line == (
        "sent 1,336,776 of 13,367,760 records to topic 'taxi-rides-of-new-york' in 40.0 s: 33,419 records/s, "
        "at 2013-01-05 14:00:07"
    )
