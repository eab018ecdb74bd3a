"""A workspace as each released version has left it, kept in ``tests/workspaces``, so that later versions can open it.

    python -m tests.support.kept_workspace VERSION

makes the one of this checkout. Do that at each release, and never again.
"""

import json
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from hourline_core.model import Project, load_project
from hourline_core.runtime.broker import Broker
from tests.support import parcels
from tests.support.oracle import OLD_TOPIC, Sent, SourceRule
from tests.support.stack_project import StackProject

FOLDER = Path(__file__).parents[1] / "workspaces"
TOPIC = "kept"


def keep(version: str) -> None:
    """Make ``tests/workspaces/<version>.tar.gz``: a project with hours of every state, and what was sent to it."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        root = Path(folder) / "project"
        project = parcels.make_finished(root, broker.bootstrap, TOPIC, partitions=1)
        (topic_id,) = {row["topic_id"] for row in project.table("progress", "scans")}
        facts = {
            "topic_id": topic_id,
            "sent": [[record.offset, record.body, record.tombstone] for record in project.sent["scans"]],
        }
        (root / "sent.json").write_text(json.dumps(facts), encoding="utf-8")
        FOLDER.mkdir(exist_ok=True)
        with tarfile.open(FOLDER / f"{version}.tar.gz", "w:gz", compresslevel=9) as archive:
            for path in ("hourline.yaml", "sources", "metrics", "sent.json", ".hourline/tables"):
                archive.add(root / path, path)


def restore(kept: Path, root: Path, kafka: str, topic: str) -> StackProject:
    """The kept project in ``root``, with what the oracle knows of it. It reads ``topic``, which is new."""
    with tarfile.open(kept) as archive:
        archive.extractall(root, filter="data")
    source = root / "sources" / "scans.yaml"
    source.write_text(
        source.read_text(encoding="utf-8").replace(f"topic: {TOPIC}\n", f"topic: {topic}\n"), encoding="utf-8"
    )
    project = StackProject(root, kafka, {"scans": _rule_of(load_project(root, {"KAFKA": kafka}))})
    facts = json.loads((root / "sent.json").read_text(encoding="utf-8"))
    project.files[facts["topic_id"]] = OLD_TOPIC
    project.sent["scans"] = [Sent(OLD_TOPIC, offset, body, tombstone) for offset, body, tombstone in facts["sent"]]
    project.note_cutoffs()
    return project


def _rule_of(project: Project) -> SourceRule:
    """What the oracle knows of the metrics of the kept project: those of today, without what they measure since."""
    now = parcels.rule()
    metrics = {
        name: replace(of, measures={one: of.measures[one] for one in project.metrics[name].measures})
        for name, of in now.metrics.items()
    }
    return replace(now, metrics=metrics)


if __name__ == "__main__":
    keep(sys.argv[1])
