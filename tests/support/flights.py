"""A source of flights and a metric of their delays, as files and as built in Python."""

from typing import Any

from hourline_core.model import EventTime, Field, Measure, Metric, Source

SOURCE = """\
topic: flights
fields:
  origin: string
  delay: {type: double, required: true}
  seen: timestamp
event_time: seen
"""
METRIC = """\
source: flights
dimensions: [origin, {late: delay > 15}]
measures:
  n: count
  mean_delay: mean( coalesce(delay, 0) )
"""


def flights_source(**changed: Any) -> Source:
    fields = {
        "origin": Field(type="string"),
        "delay": Field(type="double", required=True),
        "seen": Field(type="timestamp"),
    }
    return Source(
        **{
            "name": "flights",
            "topic": "flights",
            "fields": fields,
            "event_time": EventTime(expression="seen"),
            **changed,
        }
    )


def delays_metric(**changed: Any) -> Metric:
    measures = {"n": Measure(kind="count"), "mean_delay": Measure(kind="mean", argument="coalesce(delay, 0)")}
    dimensions = {"origin": "origin", "late": "delay > 15"}
    return Metric(**{"name": "delays", "source": "flights", "dimensions": dimensions, "measures": measures, **changed})
