"""Subjects that drain a topic of orders, each in a process of its own, and whose answers are checked."""

import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

import serving_layer
from benchmarks.draining import Drained, drained
from benchmarks.order_metrics import METRICS, SOURCE, TOPIC, OrderMetric, Rows, write_project
from benchmarks.preloaded import fill
from benchmarks.processes import hourline

SHOPS = "shops"
"""The metric of the peers."""


class OrderTopic:
    """A topic that has the orders of ``table``. ``first`` of them are the start-up of each subject."""

    def __init__(self, folder: Path, bootstrap: str, table: pa.Table, first: int) -> None:
        self._folder, self._bootstrap, self._table = folder, bootstrap, table
        self._sizes = (table.num_rows, first)
        self._projects = 0
        self._largest = 0
        self._truth: dict[str, Rows] = {}
        fill(bootstrap, TOPIC, table)

    def by_hourline(self, metrics: Mapping[str, OrderMetric], source: str = SOURCE) -> Drained:
        """Hourline, in its own project."""
        project = self._project(metrics, source)
        done = drained(hourline(project, "speed", "--drain"), *self._sizes)
        self._largest = done.largest
        with serving_layer.connect(project) as connection:
            for name, metric in metrics.items():
                columns = ", ".join(metric.names)
                found = connection.sql(f"SELECT epoch_ms(hour), {columns} FROM {name} ORDER BY ALL").fetchall()
                assert found == self.truth(name, metric), f"hourline: {name} differs from what DuckDB counts"
        return done

    def by_kafka_streams(self, command: list[str]) -> Drained:
        """Kafka Streams, with the command line of ``kafka_streams``."""
        answer = self._folder / "answer.csv"
        done = drained([*command, self._bootstrap, TOPIC, str(answer)], *self._sizes)
        rows = [line.split(",") for line in answer.read_text().splitlines()]
        found = sorted(
            (int(hour), shop, int(events), float(amount), int(most)) for shop, hour, events, amount, most in rows
        )
        assert found == self.truth(SHOPS, METRICS[SHOPS]), "Kafka Streams differs from what DuckDB counts"
        return done

    def by_bare_spark(self) -> Drained:
        """Bare Spark, with the micro-batches that Hourline had in its last drain. Its answer is discarded."""
        return drained(self._bare_spark(), *self._sizes)

    def check_bare_spark(self) -> None:
        """Run it once, and keep its answer."""
        answer = self._folder / "answer.parquet"
        drained([*self._bare_spark(), str(answer)], *self._sizes)
        sums = "sum(events)::BIGINT AS events, sum(amount) AS amount, max(most) AS most"
        found = duckdb.sql(
            f"SELECT hour * 3600000 AS hour, shop, {sums} FROM '{answer}' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        assert found == self.truth(SHOPS, METRICS[SHOPS]), "bare Spark differs from what DuckDB counts"

    def _bare_spark(self) -> list[str]:
        project = self._project({SHOPS: METRICS[SHOPS]}, SOURCE)
        module = "benchmarks.peers.bare_spark"
        return [sys.executable, "-m", module, str(project), self._bootstrap, TOPIC, str(self._largest)]

    def _project(self, metrics: Mapping[str, OrderMetric], source: str) -> Path:
        self._projects += 1
        return write_project(self._folder / f"project{self._projects}", self._bootstrap, metrics, source)

    def truth(self, name: str, metric: OrderMetric) -> Rows:
        """DuckDB's answer, computed once."""
        if name not in self._truth:
            self._truth[name] = metric.true_rows(self._table)
        return self._truth[name]
