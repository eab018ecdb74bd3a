"""Results that are sent on: whatever happened, and whenever it was killed, what a sink has sent is what the view says."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.errors import SinkError
from hourline_core.model import Metric, Project, Sink
from hourline_core.model.hours import iso_text
from serving_layer.sinks.result import Result
from serving_layer.sinks.sender import Sender
from serving_layer.sinks.sent_results import SentResults
from tests.protocol.test_changes import ROLLUPS, STEPS, WINDOWS, do
from tests.protocol.test_rollups import with_rollups
from tests.support.examples import examples
from tests.support.result_rows import KEPT
from tests.support.sent_values import Newest, as_sent, view
from tests.support.visits import Visit, Visits, hour

EMITS = ["batch", "closed", "final"]


class KilledError(BaseException):
    """The process dies here."""


@dataclass
class Received:
    """A target that keeps the newest value of each key, as a reader of the topic does."""

    dies_after: int | None = None
    """The number of results after which the process dies. None: it lives."""
    refuses: bool = False
    results_at_once: int = 3
    newest: Newest = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    taken: int = 0
    last: dict[str, tuple[datetime, datetime, str | None]] = field(default_factory=dict)

    def open(
        self, _project: Project, _sink: Sink, _metric: Metric, _columns: pa.Schema, sent: SentResults
    ) -> "Received":
        """Like a topic: what was sent and not noted is read again."""
        known = [Result(key, (start, end), None, digest) for key, (start, end, digest) in self.last.items()]
        sent.keep(known, max(self.revisions.values(), default=0))
        return self

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        if self.refuses:
            raise SinkError("not now")
        for result in results:
            assert revision > self.revisions.get(result.key, 0), "each revision rises"
            value = result.sent_value(token, revision)
            told = None if value is None else as_sent(json.loads(value, parse_float=Decimal))
            if told is None:
                assert result.key in self.newest, "what is gone was there"
                del self.newest[result.key]
            else:
                assert (told.pop("token"), told.pop("revision")) == (token, revision)
                assert told != self.newest.get(result.key), "nothing is told for nothing"
                self.newest[result.key] = told
            self.revisions[result.key] = revision
            self.last[result.key] = (*result.window, result.digest)
            self.taken += 1
        if self.dies_after is not None and self.taken >= self.dies_after:
            raise KilledError
        sent.keep(results, revision)

    def end_round(self, first_revision: int) -> None: ...

    def close(self) -> None: ...


def expected(emit: str, connection: serving_layer.Connection, name: str, clock: datetime, before: Newest) -> Newest:
    """What a sink with ``emit`` should have sent by now, if it had sent ``before``."""
    rows = view(connection, name)
    if emit == "batch":
        return {key: value for of in rows.values() for key, value in of.items()}
    if emit == "closed":
        grace = timedelta(hours=1)
        # A window closes with its last hour, also if it ends within that.
        closed = (clock - grace).replace(minute=0, second=0, microsecond=0)
        return {key: value for (_, end), of in rows.items() if end <= closed for key, value in of.items()}
    metric, base = connection.project.all_metrics[name], connection.project.base_of(name)
    reach = metric.session.reach if metric.session else timedelta(0)
    listed = connection.sql(f"SELECT hour FROM hours WHERE name = '{base}' AND state <> 'final'").fetchall()
    pending = [one for (one,) in listed]

    def is_pending(key: str) -> bool:
        start, end = (datetime.fromisoformat(json.loads(key)[name]) for name in ("window_start", "window_end"))
        return any(one - reach < end and one + timedelta(hours=1) + reach > start for one in pending)

    kept = {key: value for key, value in before.items() if is_pending(key)}
    final = {key: value for of in rows.values() for key, value in of.items() if value["state"] == "final"}
    return kept | final


@settings(max_examples=examples(4))
@given(
    steps=STEPS,
    window=WINDOWS | st.just("{gap: 1h, max_length: 2h}"),
    emit=st.sampled_from(EMITS),
    away=st.sets(st.integers(0, 4), max_size=2),
    deaths=st.dictionaries(st.integers(0, 4), st.integers(1, 6), max_size=2),
)
def test_what_a_sink_has_sent_is_what_the_view_says(
    steps: list[Any], window: str, emit: str, away: set[int], deaths: Mapping[int, int]
) -> None:
    with TemporaryDirectory() as folder:
        visits = Visits(Path(folder), window, drift=True)
        visits.project = replace(visits.project, settings=KEPT)
        visits.start()
        project = with_rollups(visits.project, **(ROLLUPS if window == "1h" else {}))
        names = [name for name in project.all_metrics if name != "unseen"]
        sinks = {f"to_{name}": Sink(name=f"to_{name}", metric=name, topic=f"of-{name}", emit=emit) for name in names}
        project = replace(project, sinks=sinks)
        targets = {name: Received() for name in sinks}
        senders: dict[str, Sender] = {}
        visits.micro_batch(Visit(205, "a", 5))
        for number, step in enumerate([None, *steps]):
            do(visits, step)
            if number in away:
                continue
            for name, sink in sinks.items():
                target = targets[name]
                before = dict(target.newest)
                if number in deaths:
                    target.dies_after = target.taken + deaths[number]
                    sender = senders.pop(name, None) or Sender(project, sink, wall, target.open)
                    with suppress(KilledError):
                        sender.send_changes(serving_layer.connect(project))
                    sender.close()
                    target.dies_after = None
                sender = senders.setdefault(name, Sender(project, sink, wall, target.open))
                sender.send_changes(serving_layer.connect(project))
                with serving_layer.connect(project) as connection:
                    want = expected(emit, connection, sink.metric, visits.clock, before)
                assert target.newest == want
                sent = target.taken
                sender.send_changes(serving_layer.connect(project))
                assert target.taken == sent, "the same results are not sent again"
        for sender in senders.values():
            sender.close()


def wall() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    visits = Visits(tmp_path, drift=True)
    visits.project = replace(
        visits.project, settings=KEPT, sinks={"out": Sink(name="out", metric="loads", topic="out")}
    )
    visits.start()
    visits.micro_batch(Visit(0, "a", 5), Visit(0, "b", 900), Visit(9, "a", 5))
    return visits


def test_what_was_not_taken_is_sent_with_the_next_round(visits: Visits) -> None:
    target = Received(refuses=True)
    sender = Sender(visits.project, visits.project.sinks["out"], wall, target.open)
    with pytest.raises(SinkError, match="not now"):
        sender.send_changes(serving_layer.connect(visits.project))
    target.refuses = False
    assert sender.send_changes(serving_layer.connect(visits.project)) == (3, 0)
    visits.micro_batch(Visit(0, "a", 50))
    target.refuses = True
    with pytest.raises(SinkError, match="not now"):
        sender.send_changes(serving_layer.connect(visits.project))
    visits.publish(0)
    target.refuses = False
    assert sender.send_changes(serving_layer.connect(visits.project)) == (2, 0), "the states of hour 0 have changed"
    assert sorted(one["state"] for one in target.newest.values()) == ["final", "final", "provisional"]
    sender.close()


def test_a_result_that_is_gone_is_told(visits: Visits) -> None:
    target = Received()
    sender = Sender(visits.project, visits.project.sinks["out"], wall, target.open)
    visits.micro_batch(Visit(1, None, 700, visit="x"))
    visits.micro_batch(Visit(1, "c", 700, visit="x", missed=True))
    assert sender.send_changes(serving_layer.connect(visits.project)) == (5, 0)
    visits.publish(1)  # The duplicate is left out.
    assert sender.send_changes(serving_layer.connect(visits.project)) == (2, 1)
    keys = [json.loads(key) for key in target.newest]
    assert [key["page"] for key in keys if key["window_start"] == iso_text(hour(1))] == [None]
    sender.close()


def test_the_revision_rises_after_an_older_workspace_was_restored(visits: Visits) -> None:
    first, now = Received(), [datetime(2026, 1, 1, tzinfo=UTC)]
    sender = Sender(visits.project, visits.project.sinks["out"], lambda: now[0], first.open)
    sender.send_changes(serving_layer.connect(visits.project))
    sender.close()
    # The restored workspace knows nothing of what was sent, and a webhook cannot be asked.
    (visits.project.workspace / "sinks" / "out.duckdb").unlink()
    now[0] += timedelta(seconds=1)
    second = Received()
    sender = Sender(visits.project, visits.project.sinks["out"], lambda: now[0], second.open)
    sender.send_changes(serving_layer.connect(visits.project))
    sender.close()
    assert second.newest == first.newest
    assert all(second.revisions[key] > revision for key, revision in first.revisions.items())


def test_a_clock_that_is_put_back_does_not_put_revisions_back(visits: Visits) -> None:
    target, now = Received(), [datetime(2026, 1, 1, tzinfo=UTC)]
    sender = Sender(visits.project, visits.project.sinks["out"], lambda: now[0], target.open)
    sender.send_changes(serving_layer.connect(visits.project))
    now[0] -= timedelta(days=300)
    visits.micro_batch(Visit(0, "a", 50))
    assert sender.send_changes(serving_layer.connect(visits.project)) == (1, 0)
    sender.close()


def sessions(folder: Path, window: str, emit: str = "batch") -> tuple[Visits, Sender, Received]:
    visits = Visits(folder, window, drift=True)
    sink = Sink(name="out", metric="loads", topic="out", emit=emit)
    visits.project = replace(visits.project, settings=KEPT, sinks={"out": sink})
    visits.start()
    target = Received()
    return visits, Sender(visits.project, sink, wall, target.open), target


def send(sender: Sender, visits: Visits) -> tuple[int, int]:
    return sender.send_changes(serving_layer.connect(visits.project))


def test_a_session_that_is_cut_far_away_from_the_event_is_sent(tmp_path: Path) -> None:
    visits, sender, target = sessions(tmp_path, "{gap: 1h, max_length: 5h}")
    visits.micro_batch(*(Visit(number, "a", 5) for number in range(2, 8)), Visit(30, "a", 5))
    assert send(sender, visits) == (2, 0)
    visits.micro_batch(Visit(7, "a", 5, minute=30))  # Now it is too long, and is cut at a multiple of 5 hours.
    assert send(sender, visits) == (3, 1)
    starts = sorted(json.loads(key)["window_start"] for key in target.newest)
    assert starts == [iso_text(hour(number)) for number in (2, 3, 30)]
    with serving_layer.connect(visits.project) as connection:
        assert target.newest == {key: value for of in view(connection, "loads").values() for key, value in of.items()}
    sender.close()


def test_a_session_that_the_clock_has_passed_is_sent_with_its_new_state(tmp_path: Path) -> None:
    visits, sender, target = sessions(tmp_path, "{gap: 3h}")
    visits.micro_batch(Visit(3, "a", 5), Visit(5, "b", 500, minute=30))
    visits.publish(*range(8))
    assert send(sender, visits) == (2, 0)
    assert {one["state"] for one in target.newest.values()} == {"provisional"}
    # Without an event near it, as where a partition is idle.
    visits.clock = hour(6) + timedelta(minutes=10)
    visits.micro_batch(Visit(60, "b", 5), moves_clock=False)
    assert send(sender, visits) == (2, 0)
    assert [one["state"] for key, one in target.newest.items() if json.loads(key)["page"] == "a"] == ["final"]
    sender.close()


def test_a_final_value_stays_until_its_hour_is_final_again(tmp_path: Path) -> None:
    visits, sender, target = sessions(tmp_path, "1h", emit="final")
    visits.micro_batch(Visit(0, "a", 5), Visit(0, "b", 5), Visit(9, "a", 5))
    assert send(sender, visits) == (0, 0)
    visits.publish(0)
    assert send(sender, visits) == (2, 0)
    visits.micro_batch(Visit(0, "a", 50))
    assert send(sender, visits) == (0, 0), "hour 0 is revised"
    assert {one["worst"] for one in target.newest.values()} == {5}
    visits.publish(0)
    assert send(sender, visits) == (1, 0)
    assert {one["worst"] for one in target.newest.values()} == {5, 50}
    sender.close()
