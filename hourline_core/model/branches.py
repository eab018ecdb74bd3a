"""Branches: several sources read the same topics, and each takes the records of its condition.

All sources of a topic decide alike which of them takes a record. So each knows what the others take, without asking.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from hourline_core.model.expressions import column_names
from hourline_core.model.fields import Field
from hourline_core.model.scratch_columns import RECORD
from hourline_core.model.source import Source
from hourline_core.model.topics import names_of, shared_topic
from hourline_core.model.yaml_files import KeyPath

OTHERWISE = "otherwise"
"""The branch that takes what no other takes."""


@dataclass(frozen=True)
class Branches:
    """The branches of the topics that a source reads, seen from this source."""

    source: Source
    others: tuple[Source, ...] = ()
    """The other sources that read the same topics."""
    reads_alone: bool = False
    """Whether no other source reads these records: they are rows of a file that is imported."""

    @cached_property
    def conditions(self) -> dict[str, str]:
        """The conditions by source, without a branch ``otherwise``."""
        sources = sorted((self.source, *self.others), key=lambda source: source.name)
        return {source.name: source.branch for source in sources if source.branch and source.branch != OTHERWISE}

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields that the conditions name. Spark tells names apart without regard to case."""
        return {
            name.casefold(): field.model_copy(update={"key": field.key or name})
            for source in (self.source, *self.others)
            for name, field in source.fields.items()
            if name.casefold() in self._named
        }

    @property
    def name_record(self) -> bool:
        """Whether a condition names the record itself."""
        return RECORD in self._named

    @property
    def takes_unreadable(self) -> bool:
        """Whether the source takes the records whose conditions cannot be evaluated. One source of the topic does: the
        branch ``otherwise``, or else the first by name.
        """
        return self.reads_alone or self.source.branch == OTHERWISE or (not self._default and self._is_first)

    @property
    def counts_untaken(self) -> bool:
        """Whether the source counts the records that no branch takes. Without ``otherwise``, the first by name does."""
        return not self._default and self._is_first and not self.reads_alone

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset[str]().union(*map(column_names, self.conditions.values()))

    @property
    def _default(self) -> bool:
        return any(source.branch == OTHERWISE for source in (self.source, *self.others))

    @property
    def _is_first(self) -> bool:
        return all(self.source.name < other.name for other in self.others)


def branches_of(sources: Iterable[Source], source: Source, reads_alone: bool = False) -> Branches | None:
    """The branches of the topics that ``source`` reads; ``sources`` are those of the project. None: it has no branch,
    and takes all.
    """
    if source.branch is None:
        return None
    others = (one for one in sources if one.name != source.name and shared_topic(one.topic, source.topic))
    return Branches(source, tuple(others), reads_alone)


def misses_tombstones(sources: Iterable[Source], source: Source) -> bool:
    """Whether records without a value do not reach ``source``, although it takes others of their key: conditions about
    fields cannot be evaluated for them, and another source of the topic takes them.
    """
    branches = branches_of(sources, source)
    return branches is not None and bool(branches.fields) and not branches.takes_unreadable


Where = Callable[[str, str, KeyPath], str]
"""Returns the place of (``"source"`` or ``"metric"``, name, path) as ``file:line``."""


def find_branch_mistakes(sources: Mapping[str, Source], where: Where) -> Iterator[str]:
    """One line for each mistake in the branches of sources that share a topic."""
    for earlier, later in combinations(sources.values(), 2):
        if topic := shared_topic(earlier.topic, later.topic):
            yield from _mistakes_of_two(topic, earlier, later, where)


def _mistakes_of_two(topic: str, one: Source, other: Source, where: Where) -> Iterator[str]:
    def place(source: Source, *path: str) -> str:
        return f"{where('source', source.name, path)}: {'.'.join(path)}"

    def see(source: Source, *path: str) -> str:
        return f"see {where('source', source.name, path)}"

    unbranched, branched = (other, one) if other.branch is None else (one, other)
    if unbranched.branch is None:
        yield (
            f"{place(unbranched, 'topic')}: got '{topic}', which source '{branched.name}' reads, too; allowed is one "
            f"source per topic, or a branch for each of them: {see(branched, 'topic')}"
        )
        return
    if (set(names_of(one.topic)) or one.topic) != (set(names_of(other.topic)) or other.topic):
        yield (
            f"{place(other, 'topic')}: got '{topic}' among others than source '{one.name}' reads, allowed are the same "
            f"topics for all branches: {see(one, 'topic')}"
        )
    if one.branch == other.branch == OTHERWISE:
        yield f"{place(other, 'branch')}: got '{OTHERWISE}', allowed is one of a topic: {see(one, 'branch')}"
    if one.format != other.format:
        yield (
            f"{place(other, 'format')}: got another one than source '{one.name}' has, allowed is the same for all "
            f"sources of a topic, with the same schema: {see(one, 'format')}"
        )
    if one.key_type != other.key_type:
        yield (
            f"{place(other, 'key_type')}: got '{other.key_type}', allowed is the same for all sources of a topic, "
            f"'{one.key_type}': {see(one, 'key_type')}"
        )
    if one.retention != other.retention:
        yield f"{place(other, 'retention')}: allowed is the same for all sources of a topic: {see(one, 'retention')}"
    named = column_names(one.branch or "") | column_names(other.branch or "")
    of_one = {name.casefold(): name for name in one.fields}
    for name, field in other.fields.items():
        twin = of_one.get(name.casefold())
        if twin and name.casefold() in named and _meaning(name, field) != _meaning(twin, one.fields[twin]):
            yield (
                f"{place(other, 'fields', name)}: got another type or key than in source '{one.name}', allowed is one "
                f"meaning of a field that a branch names: {see(one, 'fields', twin)}"
            )


def _meaning(name: str, field: Field) -> tuple[object, ...]:
    return (field.type, field.key or name, field.encoding, field.zone, field.round)
