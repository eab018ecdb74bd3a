"""The ways to read the records of a test: where they are cut into micro-batches, and which hours are recomputed when.

Every way gives the same rows. That is the promise of the two layers.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random

SPLITS = 20
"""The number of seeded splits."""
_MOST_CUTS = 5
"""The maximum number of cuts of a split."""


@dataclass(frozen=True)
class Recompute:
    """A recompute after the record number ``after``, of all hours that have events by then. With a ``seed``, of some of
    them.
    """

    after: int
    seed: str | None = None

    def chosen(self, hours: Collection[datetime]) -> list[datetime]:
        """The hours of ``hours`` (UTC) that it recomputes, in order."""
        random = None if self.seed is None else Random(self.seed)  # noqa: S311 (repeatable on purpose)
        return [hour for hour in sorted(hours) if random is None or random.random() < 0.5]


@dataclass(frozen=True)
class Case:
    """One way to read the records."""

    name: str
    ends: tuple[int, ...]
    """By micro-batch, the number of records that are read after it. The last one is the number of all."""
    recomputes: tuple[Recompute, ...]

    @property
    def in_words(self) -> str:
        """What happens in it, for people."""
        sizes = [end - first for first, end in zip((0, *self.ends), self.ends, strict=False)]
        told = [f"micro-batches of {_listed(sizes)} records" if len(sizes) > 1 else "one micro-batch"]
        if self.recomputes:
            of = "a recompute of some hours" if self.recomputes[0].seed else "a recompute"
            told.append(f"{of} after {_listed([one.after for one in self.recomputes])}")
        else:
            told.append("no recompute")
        return f"{self.name}: {', '.join(told)}"


def cases_of(records: int) -> Iterator[Case]:
    """Each single cut of so many records: those before it are recomputed, the others are provisional. Then the seeded
    splits.
    """
    for cut in range(records + 1):
        ends = tuple(end for end in dict.fromkeys((cut, records)) if end)
        yield Case(f"cut {cut}", ends, (Recompute(cut),) if cut else ())
    for number in range(1, SPLITS + 1):
        random = Random(f"split {number}")  # noqa: S311 (repeatable on purpose)
        cuts = min(random.randint(1, _MOST_CUTS), records - 1)
        ends = (*sorted(random.sample(range(1, records), cuts)), records)
        recomputes = tuple(Recompute(end, f"split {number} after {end}") for end in ends if random.random() < 0.5)
        yield Case(f"split {number}", ends, recomputes)


def _listed(numbers: list[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last
