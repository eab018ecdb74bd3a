"""The place of a table below the root of the tables, whatever names the root, a source or a metric has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.ledger.layout import Layout
from hourline_core.storage.data_files import place_of

KINDS = ["events", "rejected", "progress", "provisional", "staged", "final", "coverage", "drift", "quality"]

names = st.sampled_from([*KINDS, "clicks"])
roots = st.lists(names, min_size=1, max_size=3).map(lambda folders: f"/{'/'.join(folders)}")


@given(roots, names)
def test_a_table_of_a_source(root: str, source: str) -> None:
    for kind in ("events", "rejected", "progress"):
        assert place_of(f"{root}/{kind}/{source}/", kind) == f"{kind}/{source}"


@given(roots, names)
def test_a_table_of_a_metric(root: str, metric: str) -> None:
    layout = Layout(root)
    for kind, uri in (
        ("provisional", layout.provisional_of(metric, "0123456789ab")),
        ("staged", layout.staged_of(metric, "0123456789ab")),
        ("final", layout.final_of(metric, "0123456789ab")),
    ):
        assert place_of(uri, kind) == f"{kind}/{metric}/0123456789ab"


@pytest.mark.parametrize("root", ["/data/tables", "/coverage", "s3://bucket/drift"])
def test_a_table_of_the_project(root: str) -> None:
    layout = Layout(root)
    for kind in ("coverage", "drift", "quality", "confirmations", "checksums"):
        assert place_of(getattr(layout, kind), kind) == kind
