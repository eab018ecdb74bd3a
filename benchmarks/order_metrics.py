"""Projects that count the orders of `preloaded`, and DuckDB's answers to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.preloaded import FIELDS
from benchmarks.project_files import write_files

TOPIC = "orders"
MEASURES = {"events": "count", "amount": "sum(amount)", "most": "max(quantity)"}
DIMENSIONS = {
    "shops": ["shop"],
    "channels": ["channel"],
    "products": ["product"],
    "shops_by_channel": ["shop", "channel"],
    "quantities": ["quantity"],
    "districts": ["substring(shop, 6, 2)"],
    "ranges": ["substring(product, 9, 2)"],
    "segments": ["customer % 100"],
    "ranges_by_channel": ["substring(product, 9, 2)", "channel"],
    "segments_by_channel": ["customer % 10", "channel"],
}
"""The expressions of each metric. Spark and DuckDB read them alike."""

SETTINGS = """\
name: speed
kafka: {{bootstrap: "{bootstrap}"}}
"""
SOURCE = """\
topic: {topic}
fields: {fields}
event_time: {{expression: at, encoding: epoch_milliseconds}}
"""
WORTH = "amount * quantity"
"""A derived field. Amounts are quarters, so its sums are exact, too."""
WITH_EXPRESSIONS = f"{SOURCE}derived: {{{{worth: {WORTH}}}}}\nid: concat(shop, '/', id)\n"
"""The source with a derived field and an id. No two orders have the same id."""

Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class OrderMetric:
    """A metric over the orders, by hour."""

    dimensions: list[str]
    """Expressions that Spark and DuckDB read alike, as ``measures`` and ``where``."""
    measures: Mapping[str, str]
    where: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns beside the hour."""
        return [*(f"d{at}" for at in range(len(self.dimensions))), *self.measures]

    @property
    def declaration(self) -> str:
        """The YAML file."""
        dimensions = "".join(f'  d{at}: "{expression}"\n' for at, expression in enumerate(self.dimensions))
        measures = "".join(f'  {name}: "{text}"\n' for name, text in self.measures.items())
        where = f'where: "{self.where}"\n' if self.where else ""
        return f"source: orders\n{where}dimensions:\n{dimensions}measures:\n{measures}"

    def true_rows(self, table: pa.Table) -> Rows:
        """DuckDB's answer over the orders: hour (ms), dimensions, measures; sorted."""
        columns = ", ".join([*self.dimensions, *(text.replace("count", "count(*)") for text in self.measures.values())])
        where = f"WHERE {self.where}" if self.where else ""
        with duckdb.connect() as connection:
            connection.register("orders", table)
            return connection.sql(
                f'SELECT "at" // 3600000 * 3600000, {columns} FROM (SELECT *, {WORTH} AS worth FROM orders) {where} '
                "GROUP BY ALL ORDER BY ALL"
            ).fetchall()


METRICS = {name: OrderMetric(dimensions, MEASURES) for name, dimensions in DIMENSIONS.items()}
CONDITIONAL = {
    "large": OrderMetric(["shop"], {**MEASURES, "amount": "sum(worth)"}, "worth >= 1000 and channel <> 'phone'")
}
"""The metric of ``WITH_EXPRESSIONS``."""


def write_project(
    folder: Path,
    bootstrap: str,
    metrics: Mapping[str, OrderMetric],
    source: str = SOURCE,
    fields: str = FIELDS,
    topic: str = TOPIC,
) -> Path:
    """Write a project with these metrics over the topic, and return its folder."""
    files = {
        "hourline.yaml": SETTINGS.format(bootstrap=bootstrap),
        "sources/orders.yaml": source.format(topic=topic, fields=fields),
    }
    files |= {f"metrics/{name}.yaml": metric.declaration for name, metric in metrics.items()}
    return write_files(folder, files)
