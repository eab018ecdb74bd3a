"""The identity of a metric: a hash of everything declared that changes what is computed of the archived events."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from hourline_core.model.metric import Metric
from hourline_core.model.source import Source


def declaration_hash(source: Source, metric: Metric) -> str:
    """12 hexadecimal digits. Equal for declarations that count the same, whatever their order, description, topic or
    closing.

    Of the source's fields and derived fields only those count that the metric's expressions name, directly or through
    others: a further field elsewhere must not make every metric of the source a new one.
    """
    measures = {name: str(measure) for name, measure in metric.measures.items()}
    named = _words(
        [*metric.dimensions.values(), *measures.values(), metric.where or "", source.where or "", source.id or ""]
    )
    derived = _derived(source, named)
    named |= _words(derived.values())
    counted = {
        "source": {
            # Another source has other events, even if declared alike; its topic may be renamed.
            "name": source.name,
            "fields": {name: field.spark_type for name, field in source.fields.items() if name.casefold() in named},
            "id": source.id,
            "derived": derived,
            "where": source.where,
        },
        "metric": {"dimensions": metric.dimensions, "measures": measures, "where": metric.where},
    }
    canonical = json.dumps(counted, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class DeclaredMetric:
    """One declaration of a metric, with the source it is declared over; a metric that has changed has two until the
    newer one takes over.
    """

    source: Source
    metric: Metric

    @cached_property
    def declaration(self) -> str:
        """The hash of the declaration."""
        return declaration_hash(self.source, self.metric)

    @property
    def name(self) -> str:
        """The metric's name and the declaration, as in the names of tables."""
        return f"{self.metric.name}_{self.declaration}"


def derived_of(source: Source, metric: Metric) -> dict[str, str]:
    """The derived fields that the metric's expressions name, directly or through others, as they are declared."""
    measures = [str(measure) for measure in metric.measures.values()]
    found = _derived(source, _words([*metric.dimensions.values(), *measures, metric.where or "", source.where or ""]))
    return {name: found[name] for name in source.derived if name in found}


def _derived(source: Source, named: set[str]) -> dict[str, str]:
    known, found = set(named), {}
    for name, expression in reversed(source.derived.items()):  # a derived field may use those before it
        if name.casefold() in known:
            found[name] = expression
            known |= _words([expression])
    return found


def _words(expressions: Iterable[str]) -> set[str]:
    """Everything in the expressions that could be a name; too many are harmless."""
    return {word.casefold() for expression in expressions for word in re.findall(r"\w+", expression)}
