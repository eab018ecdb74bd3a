"""The example ``examples/word_count`` on the real stack: each word of each line counts once, whatever happens."""

import json
import re
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from speed_layer.reset import SourceReset
from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

EXAMPLE = Path(__file__).parents[2] / "examples" / "word_count"


def words(body: Body) -> list[Body | None]:
    """The events of a line. Each word of a line without a time is rejected."""
    found = re.findall(r"[a-z']+", body["line"].lower())
    return [{**body, "word": word, "place": place} if body["read"] else None for place, word in enumerate(found)]


LINES = SourceRule(
    time=lambda b: datetime.fromisoformat(b["read"]).astimezone(UTC),
    explode=words,
    id=lambda b: f"{b['number']}/{b['place']}",
    grace=timedelta(minutes=30),
    metrics={
        "words": MetricRule(
            dimensions={"word": lambda b: b["word"]},
            measures={"times": ("count", lambda b: 1), "lines": ("distinct", lambda b: b["number"])},
        ),
        "lengths": MetricRule(
            measures={
                "words": ("count", lambda b: 1),
                "letters": ("sum", lambda b: len(b["word"])),
                "longest": ("max", lambda b: len(b["word"])),
            }
        ),
    },
)


@pytest.mark.long
def test_each_word_of_each_line_counts_once(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = shutil.copytree(EXAMPLE, tmp_path / "word_count")
    (root / "hourline.yaml").write_text(
        'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\nspeed: {max_records_per_batch: 15}\n'
    )
    source = root / "sources" / "lines.yaml"
    source.write_text(source.read_text().replace("topic: lines", "topic: word_count\npartitions: 2"))
    project = StackProject(root, kafka, {"lines": LINES})
    lines = [json.loads(line) for line in (root / "lines.jsonl").read_text().splitlines()]
    assert {len(words(line)) for line in lines} > {0, 2, 8}

    project.send("lines", [*lines, {"number": 99, "read": None, "line": "Once upon a time"}])
    project.send_refused("lines", [b'{"line": "The Owl and the Pussy-cat"}', b"The Owl", None])
    project.drain()
    assert project.check() > 300
    assert len(project.recompute()) > 0
    assert project.check() > 300

    # Lines that are sent again are duplicates, word by word. The first process dies with them archived, not finished.
    project.send("lines", lines[:10])
    monkeypatch.setenv("HOURLINE_FAILPOINT", "kill after append events")
    with SpeedProcess(project, "--drain") as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    monkeypatch.delenv("HOURLINE_FAILPOINT")
    assert project.check_answers() > 300

    # All is read again: what was archived before, and the lines that were not finished.
    SourceReset(project.project, project.project.sources["lines"], kafka, "earliest").apply(datetime.now(UTC))
    finished = project.drain()
    assert sum(done.records for done in finished) == len(project.sent["lines"])
    assert sum(done.duplicates for done in finished) == sum(len(words(line)) for line in lines[:10])
    assert project.check() > 300
    project.recompute()
    assert project.check() > 300
