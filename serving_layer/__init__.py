"""The serving layer: merged results through DuckDB; needs neither pyspark nor Java."""

from serving_layer.basis import HourState
from serving_layer.connection import Connection, connect

__all__ = ["Connection", "HourState", "connect"]
