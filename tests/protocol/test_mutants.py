"""`make mutants` takes long and is run by hand; that each rule which it breaks is still where it says is shown here."""

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_each_line_that_a_mutant_changes_is_there_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert [text.count(old) for old, _ in mutant.changes] == [1] * len(mutant.changes)
