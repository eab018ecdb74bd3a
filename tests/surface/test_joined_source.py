"""What a joined source cannot do is refused in one sentence, which names its inputs."""

from pathlib import Path

import pytest

from hourline_core.errors import UsageError
from hourline_core.ledger.raw_records import notes_on_raw_records
from hourline_core.model import load_project
from hourline_core.model.decoding import decoding_of, describe_changes
from serving_layer.at_least.form import AtLeast
from serving_layer.at_least.targets import sources_reading
from tests.support.command_line import NO_KAFKA, Failing
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\n',
    "sources/orders.yaml": "topic: o\nfields: {n: long, at: timestamp}\nevent_time: at\n",
    "sources/payments.yaml": "topic: p\nfields: {n: long, at: timestamp}\nevent_time: at\n",
    "sources/paid.yaml": "join: {left: orders, right: payments, on: n, within: 1h}\n",
    "metrics/pairs.yaml": "source: paid\nmeasures: {pairs: count}\n",
    "rows.jsonl": '{"n": 1, "at": "2026-03-02T08:00:00Z"}\n',
}


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (["import", "rows.jsonl", "--source", "paid"], "import the files into an input of it"),
        (["replay", "rows.jsonl", "--source", "paid"], "send the events to an input of it"),
    ],
)
def test_a_joined_source_has_no_records_to_import_or_send(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    instead: str,
) -> None:
    folder = write_project(tmp_path, FILES)
    (line,) = Failing(monkeypatch, capsys).lines(*arguments, folder=folder, status=2)
    assert line.endswith(
        f"source 'paid' is joined of 'orders' and 'payments', and has no records of its own: {instead}"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--yes"],
            "nothing was read of source 'paid' yet, so there is nothing to reset; `hourline up` begins with the ",
        ),
        (["--to", "earliest", "--yes"], "--to is for sources of topics only; source 'paid' is joined of 'orders' and "),
    ],
)
def test_a_joined_source_without_events_is_not_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    folder = write_project(tmp_path, FILES)
    (line,) = Failing(monkeypatch, capsys).lines("reset", "paid", *arguments, folder=folder, status=2)
    assert said in line


@pytest.mark.parametrize(("arguments", "status"), [(["test"], 1), (["test", "--record", "pairs", "2026-03-02T08"], 2)])
def test_metrics_over_a_joined_source_are_not_tested(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
) -> None:
    files = {**FILES, "tests/t.yaml": "given: [text]\nexpect: {pairs: []}\n"}
    told = Failing(monkeypatch, capsys).sentence(*arguments, folder=write_project(tmp_path, files), status=status)
    assert "is joined of 'orders' and 'payments'" in told
    assert "over a source of topics" in told


def test_check_says_nothing_of_the_bytes_of_a_joined_source(tmp_path: Path) -> None:
    project = load_project(write_project(tmp_path, FILES), {"KAFKA": NO_KAFKA})
    assert list(notes_on_raw_records(project)) == []


def test_what_has_changed_of_a_join_is_said_in_words(tmp_path: Path) -> None:
    before = load_project(write_project(tmp_path / "before", FILES), {"KAFKA": NO_KAFKA})
    changed = {
        "sources/orders.yaml": FILES["sources/orders.yaml"] + "where: n > 0\n",
        "sources/paid.yaml": "join: {left: orders, right: payments, on: n, within: 2h}\n",
    }
    after = load_project(write_project(tmp_path / "after", FILES | changed), {"KAFKA": NO_KAFKA})
    decodings = [decoding_of(project.sources["paid"]) for project in (before, after)]
    assert describe_changes(*decodings) == [
        "join is another one, which a recompute refuses",
        "where of source 'orders' is another one, which a recompute refuses",
    ]


@pytest.mark.parametrize("at_least", ["now", {("o", 0): 3}])
def test_an_answer_waits_for_no_joined_source(tmp_path: Path, at_least: AtLeast) -> None:
    project = load_project(write_project(tmp_path, FILES), {"KAFKA": NO_KAFKA})
    assert [source.name for source in sources_reading(project, ["orders"], at_least)] == ["orders"]
    with pytest.raises(UsageError, match="cannot wait for source 'paid', which is joined of 'orders' and 'payments'"):
        sources_reading(project, ["orders", "paid"], at_least)


def test_a_lookup_of_a_joined_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lookup = "table: source:paid\nkey: n\ncolumns: {n: {type: long, column: orders_n}}\n"
    folder = write_project(tmp_path, {**FILES, "lookups/last.yaml": lookup})
    lines = Failing(monkeypatch, capsys).lines("plan", folder=folder, status=1)
    assert any(
        "got 'paid', which is joined of 'orders' and 'payments', allowed is a source of a topic" in line
        for line in lines
    )
