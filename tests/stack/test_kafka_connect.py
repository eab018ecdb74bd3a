"""The recipe of docs/guides/kafka-connect.md as it stands there, with the real Connect, Debezium and PostgreSQL.

What PostgreSQL says of its table of orders is the oracle of the results that come back into it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import serving_layer
from hourline_core.runtime.airflow.postgres import Postgres
from hourline_core.runtime.topics import topic_offsets
from tests.support.connect_recipe import GUIDE, connectors, declarations, moved
from tests.support.kafka_connect import ConnectWorker, skip_without_connect
from tests.support.project_files import write_project
from tests.support.shown import blocks
from tests.support.stack_project import StackProject

PROJECT = {"hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n'}
BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
COUNTED = """
    SELECT date_trunc('hour', ordered_at), country, count(*), sum(amount), max(paid_at AT TIME ZONE 'UTC')
    FROM orders GROUP BY 1, 2"""
RESULTS = "SELECT hour, country, orders, amount, last_paid, state FROM sales"
OPEN = BASE + 6 * HOUR
"""The hour that stays open."""

Rows = set[tuple[Any, ...]]


@contextmanager
def served_orders(folder: Path) -> Iterator[tuple[psycopg.Connection, dict[str, str]]]:
    """A connection to a PostgreSQL that was set up as the guide says, and where it is."""
    orders, setting, *others = blocks(GUIDE, "sql")
    server = Postgres(folder / "data", "secret", folder / "log")
    with server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(setting)
    with server, psycopg.connect(server.url, autocommit=True) as connection:  # It is restarted.
        for statements in (orders, *others):
            connection.execute(statements)
        yield connection, {name: str(value) for name, value in conninfo_to_dict(server.url).items()}


def visit(number: int) -> str:
    """A line of the file."""
    at = f"{BASE + number * HOUR / 10:%Y-%m-%dT%H:%M:%SZ}"
    return json.dumps({"visit": f"v-{number}", "page": f"/{number % 2}", "ms": 10 * number, "at": at}) + "\n"


class Shop:
    """The guide's project, and its database."""

    def __init__(self, folder: Path, kafka: str, database: psycopg.Connection, worker: ConnectWorker) -> None:
        self.project = StackProject(write_project(folder / "shop", {**PROJECT, **declarations()}), kafka, {})
        self.kafka, self.database, self.worker = kafka, database, worker

    def order(self, number: int, country: str | None, amount: str, at: datetime) -> None:
        """Insert an order that is paid later."""
        row = (number, country, amount, at, at + HOUR / 7)
        self.database.execute("INSERT INTO orders VALUES (%s, %s, %s, %s, %s)", row)

    def await_records(self, topic: str, number: int) -> None:
        """Until Connect has sent them, and no more."""
        self.worker.wait_until(lambda: self._records(topic) >= number, f"{topic} has fewer than {number} records")
        assert self._records(topic) == number

    def compute(self, *, recomputes: bool = True) -> None:
        """Read all that came, recompute what the plan says, and send the results."""
        self.project.drain()
        if recomputes:
            self.project.recompute()
        self.project.command("send", "--drain")

    def counted(self) -> Rows:
        """What PostgreSQL counts itself."""
        return set(self.database.execute(COUNTED).fetchall())

    def in_view(self) -> Rows:
        with serving_layer.connect(self.project.project) as connection:
            return set(connection.sql(RESULTS).fetchall())

    def in_table(self) -> Rows:
        return set(self.database.execute(RESULTS).fetchall())

    def await_results(self, connector: str) -> None:
        """Until the table has the results of the view. The connector has taken all of the topic then."""
        # The last offset is that of the end of a transaction.
        end = self._records("sales") - 1
        self.worker.wait_until(lambda: self.worker.offset(connector, "sales") == end, "not all results are taken")
        assert self.in_table() == self.in_view()

    def _records(self, topic: str) -> int:
        return sum(end - first for first, end in topic_offsets(self.kafka, topic, {}).values())


@pytest.mark.long
def test_rows_come_in_are_corrected_and_replayed_and_results_go_out(tmp_path: Path, kafka: str) -> None:
    skip_without_connect()
    lines = tmp_path / "visits.jsonl"
    lines.write_text("".join(map(visit, range(12))))
    with (
        served_orders(tmp_path / "postgresql") as (database, place),
        ConnectWorker(tmp_path / "connect", kafka) as worker,
    ):
        shop, of = Shop(tmp_path, kafka, database, worker), moved(connectors(), place, lines)
        for number in range(30):
            shop.order(number, ("fr", "de", None)[number % 3], f"{number}.50", BASE + number * HOUR / 10)
        worker.start(of["visits-in"])
        worker.start(of["orders-in"])
        shop.await_records("shop.public.orders", 30)
        shop.await_records("visits", 12)
        shop.compute(recomputes=False)
        worker.start(of["sales-out"])
        shop.await_results("sales-out")
        assert {row[:5] for row in shop.in_table()} == shop.counted()
        assert {row[5] for row in shop.in_table()} == {"provisional"}

        with database.transaction():
            database.execute("UPDATE orders SET amount = amount + 1 WHERE id % 4 = 0")
            database.execute("UPDATE orders SET ordered_at = ordered_at + INTERVAL '1 hour' WHERE id IN (1, 2)")
        database.execute("UPDATE orders SET id = id + 100 WHERE id = 3")
        database.execute("DELETE FROM orders WHERE country IS NULL AND ordered_at < %s", (BASE + HOUR,))
        for number in range(6):  # A leap of a clock needs several records.
            shop.order(200 + number, "fr", "1.00", OPEN + number * HOUR / 60)
        shop.await_records("shop.public.orders", 50)  # 8 + 2 + 2 (another key) + 2 + 6 after the first 30.
        shop.compute(recomputes=False)
        assert {row[:5] for row in shop.in_view()} != shop.counted(), "older versions count until a recompute"
        shop.await_results("sales-out")
        shop.compute()
        shop.await_results("sales-out")
        assert {row[:5] for row in shop.in_table()} == shop.counted()
        assert {row[5] for row in shop.in_table() if row[0] < OPEN} == {"final"}
        assert (BASE, None) not in {row[:2] for row in shop.in_table()}, "a group that has vanished is deleted"

        database.execute("TRUNCATE sales")
        worker.read_again("sales-out", "sales")
        shop.await_results("sales-out")
        worker.delete("sales-out")
        database.execute("UPDATE sales SET orders = -1")
        worker.start({**of["sales-out"], "name": "sales-again"})
        shop.await_results("sales-again")

        for name, new in (("visits-in", {}), ("orders-in", {"slot.name": "orders_again"})):
            worker.delete(name)
            worker.start({**of[name], "name": f"{name}-again", **new})
        shop.await_records("visits", 12 + 12)
        shop.await_records("shop.public.orders", 50 + 34)
        for number in range(6):  # All rows are newer versions, so the hour that was open must close, too.
            shop.order(300 + number, "de", "2.00", OPEN + 4 * HOUR + number * HOUR / 60)
        shop.await_records("shop.public.orders", 50 + 34 + 6)
        shop.compute()
        shop.await_results("sales-again")
        assert {row[:5] for row in shop.in_table()} == shop.counted()
        with serving_layer.connect(shop.project.project) as connection:
            views = connection.sql("SELECT page, sum(views) FROM views GROUP BY page").fetchall()
        assert dict(views) == {"/0": 6, "/1": 6}, "the file was read twice"
