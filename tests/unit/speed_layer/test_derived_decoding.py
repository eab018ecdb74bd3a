"""Up to which sequence a derived source reads events that are rejected now: those that it has met."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hourline_core.errors import SourceError
from hourline_core.ledger.decodings import UsedDecoding
from speed_layer.derived import decoding
from speed_layer.derived.decoding import _read_before

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAID: Any = SimpleNamespace(name="paid")
ORDERS: Any = SimpleNamespace(topic_id="orders", source=SimpleNamespace(name="orders"))


def read_before(monkeypatch: pytest.MonkeyPatch, began: datetime | None, *changes: datetime) -> int:
    """What a source has read of an input that was declared in another way at each of ``changes``, the first one at its
    beginning. It began at a time, and has read one sequence of it an hour.
    """

    def readings(ids: list[str], up_to: int) -> dict[str, Any]:
        return {ids[0]: SimpleNamespace(next_offsets={0: up_to + 1})}

    def last_started_before(moment: datetime) -> int | None:
        return None if began is None or moment <= began else -((began - moment) // HOUR)

    progress = SimpleNamespace(first_read_at=lambda: began, last_started_before=last_started_before, readings=readings)
    monkeypatch.setattr(decoding, "find_progress", lambda project, source: progress)
    used = [UsedDecoding(str(number), {}, since=since) for number, since in enumerate(changes)]
    return _read_before(cast(Any, None), PAID, ORDERS, used)


def test_what_was_read_before_the_declaration_of_now_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_before(monkeypatch, NOON, NOON - HOUR, NOON + 3 * HOUR) == 3
    assert read_before(monkeypatch, NOON, NOON - HOUR, NOON + HOUR, NOON + 3 * HOUR) == 3


def test_a_source_that_began_with_the_declaration_of_now_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_before(monkeypatch, NOON, NOON - 2 * HOUR, NOON - HOUR) == 0
    assert read_before(monkeypatch, None, NOON - 2 * HOUR, NOON - HOUR) == 0


def test_a_source_that_began_between_two_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"source 'orders' was declared in another way twice .*`hourline reset paid`"):
        read_before(monkeypatch, NOON, NOON - 2 * HOUR, NOON - HOUR, NOON + HOUR)


def test_that_refusal_does_not_refuse_the_reset_which_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [SimpleNamespace(raw=True, declared={}) for _ in range(2)]
    decodings = SimpleNamespace(others=used, now=SimpleNamespace(declared={}), used=used)
    monkeypatch.setattr(decoding, "ArchiveDecodings", SimpleNamespace(of=lambda events, source: decodings))
    monkeypatch.setattr(decoding, "needs_no_spark", lambda source, others: True)
    monkeypatch.setattr(decoding, "_read_before", lambda *of: pytest.fail("the reset asks what was read"))
    decoding.refuse_unreadable(PAID, cast(Any, SimpleNamespace(source=SimpleNamespace(name="orders"), events=None)))
