"""A source whose records name a schema that the registry has not told waits. The others are recomputed."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from batch_layer import recompute
from batch_layer.plan import PlannedHour
from hourline_core.errors import RegistryAwayError, RegistryForbidsError
from hourline_core.model import EventTime, Field, Project, Settings, Source


@pytest.mark.parametrize("kind", [RegistryAwayError, RegistryForbidsError])
def test_the_other_sources_are_recomputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[RegistryAwayError]
) -> None:
    sources = {
        name: Source(
            name=name, topic=name, fields={"at": Field(type="timestamp")}, event_time=EventTime(expression="at")
        )
        for name in ("orders", "visits")
    }
    project = Project(tmp_path, Settings(), sources, {})
    away = kind("the schema registry does not answer")
    jobs: list[list[str]] = []

    def decode_anew(spark: object, project: object, source: Source, *_: object) -> bool:
        if source.name == "orders":
            raise away
        return True

    def split_jobs(project: object, planned: Iterable[PlannedHour], _: object) -> list[object]:
        jobs.append([item.source for item in planned])
        return []

    monkeypatch.setattr(recompute, "sources_to_decode", lambda project: list(project.sources.values()))
    monkeypatch.setattr(recompute, "find_progress", lambda *_: SimpleNamespace(sequence=7))
    monkeypatch.setattr(recompute, "decode_anew", decode_anew)
    monkeypatch.setattr(recompute, "split_jobs", split_jobs)
    planned = cast(Any, [SimpleNamespace(source=name, events=1, hour=None, metric=name) for name in sources])
    with pytest.raises(kind) as failed:
        recompute.recompute(project, planned)
    assert failed.value is away
    assert jobs == [["visits"]]
