"""A declaration as text that a table carries with it: so it can still be read, and written, after its YAML has changed."""

import json

from hourline_core.model.fields import Field
from hourline_core.model.metric import Metric
from hourline_core.model.source import Source


def to_stored(source: Source, metric: Metric) -> str:
    """``metric``, and what of ``source`` its declaration hash is made of."""
    return json.dumps(
        {
            "source": {
                "fields": {name: field.model_dump() for name, field in source.fields.items()},
                "id": source.id,
                "derived": source.derived,
                "where": source.where,
            },
            "metric": {
                "name": metric.name,
                "source": metric.source,
                "description": metric.description,
                "dimensions": metric.dimensions,
                "measures": {name: str(measure) for name, measure in metric.measures.items()},
                "where": metric.where,
            },
        }
    )


def from_stored(text: str, source: Source) -> tuple[Source, Metric]:
    """The source and metric that ``text`` says; what it does not say of the source (topic, closing…) is as ``source``
    is declared now.
    """
    stored = json.loads(text)
    fields = {name: Field(**field) for name, field in stored["source"].pop("fields").items()}
    return source.model_copy(update={"fields": fields, **stored["source"]}), Metric(**stored["metric"])
