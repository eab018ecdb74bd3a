"""The text form of a measure: its parts, and what is said of a text that is none."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Literal, get_args

from pydantic_core import PydanticCustomError

from hourline_core.model.base import describe, refuse
from hourline_core.model.expressions import UNCLOSED, find_outer_word, outer_commas

BuiltInKind = Literal[
    "count",
    "sum",
    "min",
    "max",
    "first",
    "last",
    "mean",
    "variance",
    "stddev",
    "var_pop",
    "stddev_pop",
    "quantile",
    "distinct",
    "top",
    "any",
    "every",
    "ratio",
    "rate",
]
KINDS: tuple[str, ...] = get_args(BuiltInKind)
MeasureKind = Literal[BuiltInKind, "user_defined", "fold"]
_OTHER_EXAMPLES = {
    "count": "count",
    "quantile": "quantile(x, 0.99)",
    "top": "top(x, 10)",
    "ratio": "ratio(a, b)",
    "rate": "rate(a)",
}
EXAMPLES: Mapping[str, str] = {kind: _OTHER_EXAMPLES.get(kind, f"{kind}(x)") for kind in KINDS}
"""By kind, its text form."""
_ALLOWED = f"allowed are {', '.join(EXAMPLES.values())}; all but ratio and rate also with `where` and a condition"
SYNONYMS: Mapping[str, MeasureKind] = {
    "avg": "mean",
    "var_samp": "variance",
    "stddev_samp": "stddev",
    "bool_or": "any",
    "some": "any",
    "bool_and": "every",
    "approx_top_k": "top",
}
"""SQL's own words for a kind. A declaration may use them; it is read as if it had the kind."""
COUNT_IF = "count_if"
"""SQL's word for a count with a condition."""
MEDIAN = "median"
"""SQL's word for the quantile 0.5."""
LAST_ARGUMENTS: Mapping[str, str] = {"quantile": "quantile", "top": "limit"}
"""By kind with two arguments, what the second one is called."""
_COUNT_DISTINCT = re.compile(r"distinct\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_FILTER = re.compile(r"(.*\))\s*filter\s*\(\s*where\b\s*(.*)\)", re.IGNORECASE | re.DOTALL)
OTHER_WORDS: Mapping[str, str] = {
    **SYNONYMS,
    "average": "mean",
    "first_value": "first",
    "earliest": "first",
    "last_value": "last",
    "latest": "last",
    "total": "sum",
    "minimum": "min",
    "maximum": "max",
    "nunique": "distinct",
    "count_distinct": "distinct",
    "approx_count_distinct": "distinct",
    "all": "every",
    "var": "variance",
    "std": "stddev",
    "percentile": "quantile",
    "percentile_approx": "quantile",
    "approx_percentile": "quantile",
    "approx_quantile": "quantile",
    "most_frequent": "top",
    "top_n": "top",
    "top_k": "top",
}
_NO_PART_OF_MODE = (
    "the most frequent value of the whole need not be the most frequent one of any part; top(x, 1) keeps all counts"
)
_NO_PART_OF_RANK = "an event's rank among a part does not say its rank in the whole"
NOT_MERGEABLE = {
    "mode": _NO_PART_OF_MODE,
    "rank": _NO_PART_OF_RANK,
    "dense_rank": _NO_PART_OF_RANK,
    "row_number": _NO_PART_OF_RANK,
}
"""Aggregates whose partial results cannot be merged, and why."""
LARGEST_VALUES = ("topk", "topkdistinct")
"""ksqlDB's aggregates of the largest values, which are easily taken for the most frequent ones."""

_CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:\((.*)\))?", re.DOTALL | re.ASCII)

_OF_USER = rf"(?!({'|'.join(NOT_MERGEABLE)})\b)[a-z][a-z0-9_]*(?=\s*\()"
PATTERN = (
    rf"^\s*({'|'.join([*KINDS, COUNT_IF, MEDIAN, *SYNONYMS])}|{_OF_USER})\s*(\([\s\S]*\))?"
    r"(\s*\b[wW][hH][eE][rR][eE]\b[\s\S]+)?\s*$"
)
"""The text form as a regular expression of JSON Schema. Any other name may be that of a user-defined measure."""


def is_word_of_measures(word: str) -> bool:
    """Whether ``word`` has a meaning in the text form, or a message says what to write in its place."""
    return word in (*KINDS, COUNT_IF, MEDIAN, *OTHER_WORDS, *NOT_MERGEABLE, *LARGEST_VALUES)


def split_measure(text: Any, of_user: Collection[str] = ()) -> dict[str, Any]:
    """The parts of a measure in its text form: kind, argument, quantile or limit, and where. ``of_user`` are the names
    of the user-defined measures, which are a kind, too. Raises what a validator raises.
    """
    if isinstance(text, str) and outer_commas(text) is None:
        raise refuse(f"got {describe(text)}, {UNCLOSED}")
    if not isinstance(text, str):
        raise refuse(f"got {describe(text)}, {_ALLOWED}")
    called, where = _split_where(text)
    call = _CALL.fullmatch(called.strip())
    if call is None or outer_commas(call[2] or "") is None:
        raise _unknown_form(text)
    kind, argument = SYNONYMS.get(call[1], call[1]), (call[2] or "").strip()
    last: str | float | None = None
    if kind not in (*KINDS, COUNT_IF, MEDIAN, *of_user):
        raise _unknown_kind(text.strip(), kind, argument, of_user)
    if kind == COUNT_IF:
        kind, argument, where = "count", "", _both(text, argument, where)
    elif kind == MEDIAN:
        kind, last = "quantile", 0.5
    elif kind in LAST_ARGUMENTS and (commas := outer_commas(argument)):
        argument, last = argument[: commas[-1]].strip(), argument[commas[-1] + 1 :].strip()
    elif kind == "count" and (of := _COUNT_DISTINCT.fullmatch(argument)):
        kind, argument = "distinct", of[1].strip()
    elif kind == "count" and argument == "*":
        argument = ""
    elif kind == "count" and call[2] is not None and not argument:
        raise refuse(f"got {describe(text)}, {_ALLOWED} — did you mean 'count'?")
    parts = {"kind": kind, "argument": argument or None, "where": where}
    return {**parts, LAST_ARGUMENTS[kind]: last} if kind in LAST_ARGUMENTS else parts


def _split_where(text: str) -> tuple[str, str | None]:
    """What is before the word `where`, and the condition after it. None: there is no such word."""
    if (place := find_outer_word(text, "where")) is None:
        return text, None
    condition = text[place + len("where") :].strip()
    if not condition:
        raise refuse(f"got {describe(text)}, allowed is a condition after `where`, such as `count where delay > 15`")
    return text[:place], condition


def _both(text: str, condition: str, where: str | None) -> str:
    """The condition of `count_if`, with that after `where` if there is one."""
    if not condition or outer_commas(condition):
        raise refuse(f"got {describe(text)}, allowed is {COUNT_IF}(x) with one condition")
    return condition if where is None else f"({condition}) and ({where})"


def _unknown_form(text: str) -> PydanticCustomError:
    of_sql = _FILTER.fullmatch(text.strip())
    hint = f" — did you mean '{of_sql[1].strip()} where {of_sql[2].strip()}'?" if of_sql else ""
    return refuse(f"got {describe(text)}, {_ALLOWED}{hint}")


def _unknown_kind(text: str, kind: str, argument: str, of_user: Collection[str]) -> PydanticCustomError:
    for name, reason in NOT_MERGEABLE.items():
        if re.match(rf"(approx_)?{name}(_approx|_cont|_disc)?$", kind, re.IGNORECASE):
            return refuse(f"got {describe(text)}, which cannot be merged from partial results ({reason}); {_ALLOWED}")
    if kind.lower() in LARGEST_VALUES:
        return refuse(
            f"got {describe(text)}, the largest values, which no measure keeps; allowed are max(x), the largest one, "
            "and top(x, 10), the most frequent ones"
        )
    near = get_close_matches(kind.lower(), [*KINDS, *of_user], n=1)
    meant = OTHER_WORDS.get(kind.lower()) or next(iter(near), None)
    if meant is None:
        return refuse(f"got {describe(text)}, {_ALLOWED}; or define it with a class in measures/{kind.lower()}.py")
    if meant in of_user:
        return refuse(f"got {describe(text)}, {_ALLOWED} — did you mean '{meant}({argument or 'x'})'?")
    # The whole call, ready to copy.
    is_whole = meant in LAST_ARGUMENTS and outer_commas(argument)
    call = f"{meant}({argument})" if is_whole else EXAMPLES[meant].replace("(x", f"({argument or 'x'}")
    return refuse(f"got {describe(text)}, {_ALLOWED} — did you mean '{call}'?")
