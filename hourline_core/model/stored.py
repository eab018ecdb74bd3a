"""A declaration as text that is stored with its tables.

The tables can then be read and written even after the declaration's YAML has changed.
"""

import json

from hourline_core.model.fields import Field
from hourline_core.model.identity import user_measures_of
from hourline_core.model.lookup import Lookup
from hourline_core.model.metric import Metric
from hourline_core.model.metric_window import MetricWindow
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.source import Source
from hourline_core.model.source_lookup import SourceLookup
from hourline_core.model.user_measure import UserMeasure


def to_stored(source: Source, metric: Metric) -> str:
    """``metric``, and the parts of ``source`` that its declaration hash covers."""
    return json.dumps(
        {
            "source": {
                "fields": {name: field.model_dump() for name, field in source.fields.items()},
                "key_type": source.key_type,
                "explode": source.explode,
                "id": source.id,
                "derived": source.derived,
                "where": source.where,
                "lookups": {name: use.model_dump(mode="json") for name, use in source.lookups.items()},
            },
            "tables": {
                source.lookup_name(name): source.lookup_of(name).model_dump(mode="json") for name in source.lookups
            },
            "metric": {
                "name": metric.name,
                "source": metric.source,
                "description": metric.description,
                "dimensions": metric.dimensions,
                "measures": {name: str(measure) for name, measure in metric.measures.items()},
                "where": metric.where,
                "window": metric.window.model_dump(mode="json", exclude_none=True),
            },
            "classes": {measure.file: measure.code for measure in user_measures_of(metric).values()},
        }
    )


def from_stored(text: str, source: Source, window: MetricWindow | SessionWindow) -> tuple[Source, Metric]:
    """The source and metric in ``text``. The other parts of the source (topic, clock, …) are those of ``source``. A new
    ``window`` counts at once if it is made of what is stored.
    """
    stored = json.loads(text)
    fields = {name: Field(**field) for name, field in stored["source"].pop("fields").items()}
    lookups = {name: SourceLookup(**use) for name, use in stored["source"].pop("lookups", {}).items()}
    tables = {name: Lookup.model_validate(table) for name, table in stored.get("tables", {}).items()}
    # An older version of Hourline, which stored no ``explode``, had none.
    own = {"explode": {}, **stored["source"], "fields": fields, "lookups": lookups}
    classes = [UserMeasure.of_file(file, code) for file, code in stored.get("classes", {}).items()]
    metric = Metric.model_validate(stored["metric"], context={one.name: one for one in classes})
    if type(window) is type(metric.window) and window.pane == metric.window.pane:
        metric = metric.model_copy(update={"window": window})
    return source.model_copy(update=own).bind_lookups(tables), metric
