"""The serving layer: merged results through DuckDB; needs neither pyspark nor Java."""

from serving_layer.connect import connect
from serving_layer.connection import Connection
from serving_layer.query_scope import HourState

__all__ = ["Connection", "HourState", "connect"]
