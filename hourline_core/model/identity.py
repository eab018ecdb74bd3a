"""The identity of a metric: a hash of all declared settings that change its results over the archived events."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache

from hourline_core.model.metric import Metric
from hourline_core.model.scratch_columns import RECORD
from hourline_core.model.source import Source
from hourline_core.model.user_measure import UserMeasure


def declaration_hash(source: Source, metric: Metric) -> str:
    """12 hexadecimal digits, equal for declarations that compute the same results.

    Order, description, topic, clock, grace, ratios, rates and windows with the same panes do not matter. Fields and
    derived fields of the source matter only if the metric's expressions name them, directly or through derived fields.
    So a new field does not change every metric. The element of ``explode`` is such a field. Its expression does not
    matter: archived events have their element.
    """
    return _hash_declared(_Declared(source, metric))


class _Declared:
    """A source and a metric, equal to the same two objects alone: to compare what they hold takes longer than the hash
    of it. They do not change.
    """

    def __init__(self, source: Source, metric: Metric) -> None:
        self.source, self.metric = source, metric

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Declared) and (self.source is other.source and self.metric is other.metric)

    def __hash__(self) -> int:
        return hash((id(self.source), id(self.metric)))


@lru_cache(maxsize=4096)
def _hash_declared(declared: _Declared) -> str:
    source, metric = declared.source, declared.metric
    measures = _stored_measures(metric)
    derived, named = _collect_names(source, metric)
    lookups = {name: _lookup_content(source, name, named) for name in source.lookups if name.casefold() in named}
    key_type = {"key_type": source.key_type} if RECORD in named else {}
    elements = [name for name in source.explode if name.casefold() in named]
    # Windows are merged from what is stored. Only that matters: the panes, and the bounds of sessions.
    pane: dict[str, int] = {}
    if metric.session:
        pane = {"session_pane_seconds": metric.session.pane // timedelta(seconds=1)}
    elif metric.pane:
        pane = {"pane_minutes": metric.pane // timedelta(minutes=1)}
    classes = {measure.file: measure.code for measure in user_measures_of(metric).values()}
    content = {
        "source": {
            **key_type,
            **({"elements": elements} if elements else {}),
            **({"lookups": lookups} if lookups else {}),
            # Two sources have different events, even if their declarations are equal. A topic may be renamed.
            "name": source.name,
            "fields": {name: field.spark_type for name, field in source.fields.items() if name.casefold() in named},
            "id": source.id,
            "derived": derived,
            "where": source.where,
        },
        "metric": {
            **pane,
            **({"classes": classes} if classes else {}),
            "dimensions": metric.dimensions,
            "measures": measures,
            "where": metric.where,
        },
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def expectations_hash(source: Source, metric: Metric) -> str:
    """12 hexadecimal digits. When they change, an hour that did not pass its audit may pass now."""
    content = [
        [one.consequences for one in source.expectations],
        [one.consequences for one in metric.expectations],
        metric.history.model_dump(),
        source.volume.model_dump(),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class DeclaredMetric:
    """One declaration of a metric, with its source. A changed metric has two until the newer one is promoted."""

    source: Source
    metric: Metric

    @cached_property
    def declaration(self) -> str:
        """The hash of the declaration."""
        return declaration_hash(self.source, self.metric)

    @property
    def name(self) -> str:
        """The metric's name and the hash, as in the names of tables."""
        return f"{self.metric.name}_{self.declaration}"


def _stored_measures(metric: Metric) -> dict[str, str]:
    """The measures that have states, as text. A ratio or a rate is made of others when it is read."""
    return {name: str(measure) for name, measure in metric.measures.items() if not measure.operands}


def user_measures_of(metric: Metric) -> dict[str, UserMeasure]:
    """The user-defined measures of ``metric``, each once, by their own name."""
    used = (measure.user_measure for measure in metric.measures.values())
    return {one.name: one for one in used if one is not None}


def names_record(source: Source, metric: Metric) -> bool:
    """Whether the metric's expressions name the record itself, directly or through what they use of the source."""
    return RECORD in _collect_names(source, metric)[1]


def words_of(source: Source, metric: Metric) -> set[str]:
    """All words, in lower case, of the expressions that the metric's results depend on: names of fields among them."""
    return _collect_names(source, metric)[1]


def derived_of(source: Source, metric: Metric) -> dict[str, str]:
    """The derived fields that the metric's expressions name, directly or through others, in their declared order."""
    measures = _stored_measures(metric).values()
    derived = _collect_derived(
        source, _words([*metric.dimensions.values(), *measures, metric.where or "", source.where or ""])
    )
    return {name: derived[name] for name in source.derived if name in derived}


def _collect_names(source: Source, metric: Metric) -> tuple[dict[str, str], set[str]]:
    """The derived fields that the metric's results depend on, and all words in the expressions they depend on."""
    measures = _stored_measures(metric).values()
    conditions = [metric.where or "", source.where or "", source.id or ""]
    words = _words([*metric.dimensions.values(), *measures, *conditions])
    derived = _collect_derived(source, words)
    words = words | _words(derived.values())
    keys = [text for name, use in source.lookups.items() if name.casefold() in words for text in use.key]
    return derived, words | _words(keys)


def _lookup_content(source: Source, name: str, words: set[str]) -> list[object]:
    """What decides on the rows that events find of a lookup, and on what ``words`` name of them."""
    lookup, use = source.lookup_of(name), source.lookups[name]
    columns = {column: of.spark_type for column, of in lookup.columns.items() if column.casefold() in words}
    types = [lookup.columns[key].type for key in lookup.key]
    return [lookup.name, use.key, types, lookup.valid_from, lookup.valid_to, columns]


def _collect_derived(source: Source, words: set[str]) -> dict[str, str]:
    words, derived = set(words), {}
    for name, expression in reversed(source.derived.items()):  # a derived field may use earlier ones
        if name.casefold() in words:
            derived[name] = expression
            words |= _words([expression])
    return derived


def _words(expressions: Iterable[str]) -> set[str]:
    """All words in the expressions that could be names. Words that are no names do no harm."""
    return {word.casefold() for expression in expressions for word in re.findall(r"\w+", expression)}
