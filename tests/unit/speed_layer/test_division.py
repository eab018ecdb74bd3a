"""Into how many parts a micro-batch of a derived source is divided."""

from speed_layer.derived.division import Division


def test_tasks_that_run_at_once_share_many_rows() -> None:
    division = Division(tasks=4)
    assert [division.parts_of(rows) for rows in (0, 1, 199_999, 200_000, 10_000_000)] == [1, 1, 1, 2, 4]


def test_parts_that_did_not_fit_are_smaller_up_to_a_limit() -> None:
    division = Division(tasks=2)
    parts = [division.parts_of(50_000)]
    while division.refine(50_000):
        parts.append(division.parts_of(50_000))
    assert parts == [1, 4, 16, 64]


def test_a_part_has_at_least_a_row() -> None:
    division = Division(tasks=2)
    assert not division.refine(0)
    assert not division.refine(1)
    assert division.refine(3)
    assert division.parts_of(3) == 3
    assert not division.refine(3)


def test_a_smaller_micro_batch_after_it_is_divided_by_what_has_fitted() -> None:
    division = Division(tasks=2)
    division.refine(80_000)
    assert [division.parts_of(rows) for rows in (10_000, 40_000, 80_000)] == [1, 2, 4]


def test_parts_grow_again_while_all_fit() -> None:
    division = Division(tasks=2)
    division.refine(80_000)
    found = []
    for _ in range(3):
        division.relax()
        found.append(division.parts_of(80_000))
    assert found == [2, 1, 1]
