"""Sources that share a topic: what their branches must agree on, and which of them has to do with what no branch takes."""

from pathlib import Path

import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import Project, load_project
from hourline_core.model.branches import branches_of
from hourline_core.model.topology_text import topology_text
from tests.support.project_files import write_project


def declared(folder: Path, *sources: str) -> Project:
    """Sources a, b, …, each by its keys in one line."""
    rest = {"topic": "shop", "fields": "{type: string, n: int, at: timestamp}", "event_time": "at"}
    files = {"hourline.yaml": ""}
    for name, keys in zip("abc", sources, strict=False):
        given = dict(key.split(": ", 1) for key in keys.split("; ")) if keys else {}
        files[f"sources/{name}.yaml"] = "".join(f"{key}: {value}\n" for key, value in (rest | given).items())
    return load_project(write_project(folder, files))


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (
            ["", ""],
            "sources/b.yaml:1: topic: got 'shop', which source 'a' reads, too; allowed is one source per topic, or a "
            "branch for each of them: see sources/a.yaml:1",
        ),
        (["", "branch: n = 1"], "sources/a.yaml:1: topic: got 'shop', which source 'b' reads, too"),
        (
            ["branch: n = 1", "branch: n = 2; topic: [shop, web]"],
            "sources/b.yaml:1: topic: got 'shop' among others than source 'a' reads",
        ),
        (
            ["branch: otherwise", "branch: otherwise"],
            "sources/b.yaml:4: branch: got 'otherwise', allowed is one of a topic: see sources/a.yaml:4",
        ),
        (
            ["branch: n = 1; key_type: int", "branch: n = 2"],
            "sources/b.yaml:1: key_type: got 'binary', allowed is the same for all sources of a topic, 'int'",
        ),
        (
            ["branch: n = 1", "branch: n = 2; retention: 30d"],
            "sources/b.yaml:5: retention: allowed is the same for all sources of a topic: see sources/a.yaml:1",
        ),
        (
            ["branch: n = 1", "branch: type = 'x'; fields: {type: string, n: long, at: timestamp}"],
            "sources/b.yaml:2: fields.n: got another type or key than in source 'a'",
        ),
        (
            ["branch: n = 1", "branch: type = 'x'; fields: {N: int, type: string, at: timestamp}"],
            "sources/b.yaml:2: fields.N: got another type or key than in source 'a'",
        ),
    ],
)
def test_branches_that_could_not_decide_alike_are_refused_with_both_lines(
    tmp_path: Path, sources: list[str], said: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, *sources)
    (mistake,) = str(refused.value).splitlines()
    assert mistake.startswith(said)


def test_a_field_that_no_branch_names_may_differ(tmp_path: Path) -> None:
    declared(tmp_path, "branch: type = 'n'", "branch: type = 'b'; fields: {type: string, n: double, at: timestamp}")


@pytest.mark.parametrize(
    ("sources", "takes_unreadable", "counts_untaken"),
    [
        (["branch: n = 1"], ["a"], ["a"]),
        (["branch: n = 1", "branch: type = 'b'"], ["a"], ["a"]),
        (["branch: n = 1", "branch: otherwise", "branch: n = 3"], ["b"], []),
    ],
)
def test_one_source_has_to_do_with_what_no_branch_takes(
    tmp_path: Path, sources: list[str], takes_unreadable: list[str], counts_untaken: list[str]
) -> None:
    project = declared(tmp_path, *sources)
    branches = [branches_of(project.sources.values(), source) for source in project.sources.values()]
    assert [of.source.name for of in branches if of and of.takes_unreadable] == takes_unreadable
    assert [of.source.name for of in branches if of and of.counts_untaken] == counts_untaken
    assert all(of and of.conditions == branches[0].conditions for of in branches if branches[0])
    # A file is read by the source that it is imported into, and by no other.
    for source in project.sources.values():
        alone = branches_of(project.sources.values(), source, reads_alone=True)
        assert alone
        assert (alone.takes_unreadable, alone.counts_untaken) == (True, False)


def test_the_graph_shows_the_branches(tmp_path: Path) -> None:
    project = declared(tmp_path, "branch: n = 1", "branch: otherwise")
    assert topology_text(project).splitlines() == [
        "topic shop",
        "  source a: branch n = 1; event time at",
        "  source b: branch otherwise; event time at",
    ]


def test_a_source_without_a_branch_takes_all(tmp_path: Path) -> None:
    project = declared(tmp_path, "")
    assert branches_of(project.sources.values(), project.sources["a"]) is None
