"""Finds the joins that cannot be."""

import re
from collections.abc import Collection, Iterator, Mapping

from hourline_core.errors import did_you_mean
from hourline_core.model.branches import Where
from hourline_core.model.field_types import parse_type
from hourline_core.model.join import JOINED_ROW, KEY_TYPES, UNMATCHED, Join, JoinSide
from hourline_core.model.names import ANY_CASE, LONGEST
from hourline_core.model.source import Source


def find_join_mistakes(sources: Mapping[str, Source], where: Where, unread: Collection[str]) -> Iterator[str]:
    """A line for each mistake in a join. ``unread`` are sources that exist, but whose own declaration has a mistake."""
    for source in sources.values():
        if source.join is None:
            continue
        for path, text in dict.fromkeys(_find_mistakes(source, source.join, sources, unread)):
            yield f"{where('source', source.name, ('join', *path))}: {'.'.join(('join', *path))}: {text}"


def _find_mistakes(
    source: Source, join: Join, sources: Mapping[str, Source], unread: Collection[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    known = True
    for side, declared in zip(("left", "right"), join.sides, strict=True):
        name = declared.source
        yield from (((side,), text) for text in _find_name_mistakes(declared, {*sources, *unread}))
        if name not in sources:
            known = False
            if name not in unread:
                yield (side,), f"got '{name}', which is no source of this project{did_you_mean(name, sources)}"
        elif circle := _find_circle(source.name, name, sources):
            known = False
            yield (side,), f"got '{name}', which is joined of '{source.name}' itself: {' ← '.join(circle)}"
        elif exploded := [text for of, text in sources[name].explode.items() if sources[name].type_of(of) is None]:
            known = False
            yield (
                (side,),
                f"got '{name}', which explodes '{exploded[0]}': only Spark knows the type of its elements; allowed is "
                "the name of a declared array, such as `explode: {line: lines}` with `lines: array<string>`",
            )
    if not known:
        return
    yield from _find_taken_back_mistakes(source, join, sources)
    left, right = (sources[side.source] for side in join.sides)
    for one, other in join.on.items():
        yield from ((("on", one), text) for text in _find_key_mistakes(left, one, right, other))
    own = [*source.derived, *source.lookups]
    names = {name.casefold(): f"'{name}' of '{source.name}' itself" for name in own}
    if any(sources[name].takes_back for name in join.inputs):
        names[JOINED_ROW] = f"'{JOINED_ROW}' of each join whose events may be taken back"
    for joined, of in (
        *join.left.joined_names(left.event_fields),
        *join.right.joined_names(right.event_fields),
    ):
        earlier = names.setdefault(joined.casefold(), of)
        if earlier != of:
            yield (), f"{earlier} and {of} would both be '{joined}'; allowed is each name once: rename one of them"
        if len(joined) > LONGEST:
            yield (), f"{of} would be '{joined}', which has {len(joined)} characters, allowed are {LONGEST}"


def _find_taken_back_mistakes(
    source: Source, join: Join, sources: Mapping[str, Source]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a join has not whose events may be taken back."""
    of_inputs = [name for name in join.inputs if sources[name].takes_back]
    if of_inputs and len(join.inputs) == 1:
        yield (), f"got '{of_inputs[0]}' on both sides, whose events may be taken back; allowed are two sources"
    if of_inputs and join.type == "inner":
        which = f"beside a join of '{of_inputs[0]}', whose events may be taken back"
        if source.id not in (None, JOINED_ROW):
            yield (), f"got `id` {which}: leave id out"
        if source.volume.duplicates is not None:
            yield (), f"got `volume.duplicates` {which} and count as duplicates then: leave it out"
    reserved = {JOINED_ROW: "whose events may be taken back"} if of_inputs else {}
    reserved |= {UNMATCHED: "that is left or full"} if join.type != "inner" else {}
    for name, which in reserved.items():
        if name in map(str.casefold, [*source.derived, *source.lookups]):
            yield (), f"'{name}' of '{source.name}' itself is the name of a field of each join {which}: rename it"


def _find_name_mistakes(side: JoinSide, sources: Collection[str]) -> Iterator[str]:
    if side.name != side.source and side.name in sources:
        yield (
            f"got the name '{side.name}' for '{side.source}', which is that of another source of this project; allowed "
            "is a name that no source has"
        )


def _find_circle(name: str, start: str, sources: Mapping[str, Source]) -> list[str]:
    """The sources on the way from an input ``start`` back to ``name``. Empty: there is no way."""
    ways = [[name, start]]
    seen = {start}
    while ways:
        way = ways.pop()
        if way[-1] == name:
            return way
        following = sources[way[-1]].join if way[-1] in sources else None
        for one in following.inputs if following else ():
            if one not in seen:
                seen.add(one)
                ways.append([*way, one])
    return []


def _find_key_mistakes(left: Source, one: str, right: Source, other: str) -> Iterator[str]:
    """Of declared fields alone. The types of derived ones, and of expressions, are found where these are translated."""
    types = []
    for source, text in ((left, one), (right, other)):
        kind = source.type_of(text) if text in source.event_fields else None
        if kind is not None:
            types.append(str(parse_type(kind)))
        elif re.fullmatch(ANY_CASE, text) and text.casefold() not in source.field_names:
            hint = did_you_mean(text, [*source.event_fields, *source.derived])
            yield f"got '{text}', which is no field of source '{source.name}'{hint}"
    if len(types) == 2:
        yield from find_other_types((left, one, types[0]), (right, other, types[1]))


def find_other_types(left: tuple[Source, str, str], right: tuple[Source, str, str]) -> Iterator[str]:
    """A sentence if two parts of a key cannot be compared. Each is given with its source and type."""
    if left[2] != right[2]:
        yield (
            f"got '{left[1]}' of source '{left[0].name}', which is of type {left[2]}, and '{right[1]}' of source "
            f"'{right[0].name}', which is of type {right[2]}; allowed are fields of the same type"
        )
    elif left[2] not in KEY_TYPES:
        yield f"got fields of type {left[2]}, allowed are {', '.join(KEY_TYPES)}"
