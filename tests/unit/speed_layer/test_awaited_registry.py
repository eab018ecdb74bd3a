"""A source waits for the schema registry, and the others are read on meanwhile."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from hourline_core.errors import RegistryAwayError, RegistryError, RegistryForbidsError
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.lease import lease
from hourline_core.runtime.registry_absence import RegistryAbsence, note_registry_absences, registry_absences
from speed_layer.recovery import awaited_registry
from speed_layer.recovery.awaited_registry import AwaitedRegistry
from speed_layer.state import State
from tests.support.observed import Observed
from tests.support.schema_registry import SchemaRegistry, serve_registry
from tests.support.stubbed_streams import ForeachBatch, Query, World, stream_of

NOON = datetime(2024, 4, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def project_with(registry: SchemaRegistry, folder: Path) -> Project:
    settings = Settings.model_validate({"registry": {"url": registry.url}})
    names = ("orders", "visits")
    sources = {
        name: Source(name=name, topic=name, fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
        for name in names
    }
    return Project(folder, settings, sources, {})


def wait_until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited_registry, "_SECONDS_BETWEEN", 0.01)


@pytest.mark.parametrize("kind", [RegistryAwayError, RegistryForbidsError])
def test_a_source_waits_until_the_registry_answers(tmp_path: Path, kind: type[RegistryError]) -> None:
    observed = Observed()
    with serve_registry(SchemaRegistry()) as registry:
        registry.fault = 403, {"error_code": 40301, "message": "No"}
        project = project_with(registry, tmp_path)
        awaited = AwaitedRegistry(project, wall_clock, observed)
        awaited.wait_for(kind("no answer", source="orders"))
        wait_until(lambda: len(registry.asked) > 3)
        assert [awaited.is_awaited_by(project.sources[name]) for name in ("orders", "visits")] == [True, False]
        assert observed.registry == ["no answer"]
        registry.fault = None
        wait_until(lambda: len(observed.registry) == 2)
        assert not awaited.is_awaited_by(project.sources["orders"])
        assert observed.registry == ["no answer", "orders"]


def test_what_comes_again_although_the_registry_answers_is_waited_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    with serve_registry(SchemaRegistry()) as registry:
        observed = Observed()
        awaited = AwaitedRegistry(project_with(registry, tmp_path), wall_clock, observed)
        awaits = partial(awaited.is_awaited_by, awaited._project.sources["orders"])
        monkeypatch.setattr(awaited._closed, "wait", pauses.append)
        for _ in range(15):
            awaited.wait_for(RegistryAwayError("no answer", source="orders"))
            wait_until(lambda: len(observed.registry) == 2 * len(pauses) and not awaits())
    assert pauses == [min(0.01 * 2**number, 60) for number in range(15)]


def test_it_is_noted_which_sources_wait_and_since_when(tmp_path: Path) -> None:
    observed, now = Observed(), [NOON]

    def wait(source: str, reason: str) -> None:
        awaited.wait_for(RegistryAwayError(f"the stream stopped: {reason}", source=source, reason=reason))

    with serve_registry(SchemaRegistry()) as registry:
        registry.fault = 500, {}
        project = project_with(registry, tmp_path)
        note_registry_absences(project.workspace, {"orders": RegistryAbsence(NOON, "of an earlier process")})
        with lease(project.workspace, "speed"):
            awaited = AwaitedRegistry(project, lambda: now[0], observed)
            assert registry_absences(project.workspace) == {}
            wait("orders", "no answer")
            now[0] += MINUTE
            wait("visits", "no trust")
            both = {"orders": RegistryAbsence(NOON, "no answer"), "visits": RegistryAbsence(NOON + MINUTE, "no trust")}
            assert registry_absences(project.workspace) == both
            for pause, since in ((2 * MINUTE, NOON), (3 * MINUTE, NOON + 6 * MINUTE)):
                registry.fault = None
                wait_until(lambda: not registry_absences(project.workspace))
                registry.fault = 500, {}
                now[0] += pause
                wait("orders", "no answer")
                assert registry_absences(project.workspace) == {"orders": RegistryAbsence(since, "no answer")}
        assert registry_absences(project.workspace) == {}, "no speed layer runs"
        awaited.close()


def test_a_closed_one_asks_no_more(tmp_path: Path) -> None:
    observed = Observed()
    with serve_registry(SchemaRegistry()) as registry:
        registry.fault = 500, {}
        project = project_with(registry, tmp_path)
        awaited = AwaitedRegistry(project, wall_clock, observed)
        awaited.wait_for(RegistryAwayError("no answer", source="orders"))
        wait_until(lambda: bool(registry.asked))
        awaited.close()
        wait_until(lambda: not [one for one in threading.enumerate() if one.name == "registry-watch"])
        assert awaited.is_awaited_by(project.sources["orders"])
        assert observed.registry == ["no answer"]


def test_the_other_sources_are_read_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path)
    layer = world.layer("orders", "visits")
    with serve_registry(SchemaRegistry()) as registry:
        monkeypatch.setattr(layer._registry, "_project", project_with(registry, tmp_path))
        registry.fault = 500, {}
        failing, other = ForeachBatch("orders"), ForeachBatch("visits")
        world.streams = [
            stream_of(failing, Query(RegistryAwayError("the schema registry does not answer"))),
            stream_of(other, Query()),
        ]
        read: list[int] = []

        def answer_again() -> None:
            read.append(world.lives)
            registry.fault = None
            wait_until(lambda: len(world.registry) == 2)

        world.ends = [answer_again, lambda: read.append(world.lives)]
        assert layer.run(world.stop) == []
    assert read == [3, 5], "both are started, then the other one alone, then both"
    said = "the stream of source 'orders' stopped: the schema registry does not answer"
    assert world.registry == [said, "orders"]
    assert State.AWAY not in world.states
    assert world.survived == 1


def test_a_run_to_the_end_of_the_topics_fails_with_the_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path)
    world.streams = [stream_of(ForeachBatch("visits"), Query(RegistryAwayError("the schema registry does not answer")))]
    with pytest.raises(RegistryAwayError) as failed:
        world.layer(drain=True).run(world.stop)
    assert str(failed.value) == (
        "the stream of source 'visits' stopped: the schema registry does not answer; nothing is lost, and "
        "`hourline speed` goes on where it stopped"
    )
    assert failed.value.retryable
