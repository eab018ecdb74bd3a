"""Visits as Hypothesis makes them up."""

from hypothesis import strategies as st

from tests.support.visits import Visit


def micro_batches(hours: st.SearchStrategy[int], most: int) -> st.SearchStrategy[list[Visit]]:
    """One to ``most`` visits in ``hours``: of few pages and ids, so that some are of one group, and some come twice."""
    visits = st.builds(
        Visit,
        hour=hours,
        page=st.sampled_from(["a", "b", None]),
        ms=st.sampled_from([5, 120, 900]),
        visit=st.sampled_from([None, "x", "y", "z"]),
        missed=st.booleans(),
        minute=st.integers(0, 59),
    )
    return st.lists(visits, min_size=1, max_size=most)
