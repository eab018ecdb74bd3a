"""The reference cannot go stale: each page in docs/reference is what its generator makes of the code."""

import pytest

from docs.generate import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_what_the_code_generates(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), f"run `python -m docs.generate`, and commit docs/reference/{name}"


def test_no_other_page_is_in_the_reference() -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(PAGES)
