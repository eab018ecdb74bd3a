"""Free SQL: what it answers is what the same query gives without it; what it must not do is refused, and would not work
if it were not.
"""

import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
import pytest
from datasketches import update_theta_sketch

import serving_layer
from hourline_core.errors import HourlineError, SetupError, UsageError
from hourline_core.sql.sketches import install_sketch_functions
from serving_layer.http.error_responses import TimedOutError, TooLargeError, TooManyError
from serving_layer.http.sandbox import worker
from serving_layer.http.sandbox.process import Limits
from serving_layer.http.sandbox.sandbox import Sandbox
from serving_layer.http.sandbox.worker import Fork, Worker
from tests.support.bare_tables import BareTables
from tests.support.escapes import BOMBS, ENDLESS, REFUSED, SLOW_BOMBS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")

SECRET = "the secret of the canary"  # noqa: S105
LIMITS = Limits(seconds=120, memory=256 << 20, rows=10_000, bytes=1 << 20)
VIEWS = ["totals"]

GOOD = [
    "FROM totals ORDER BY hour",
    "SELECT hour, sum(n) AS n FROM totals GROUP BY ALL ORDER BY ALL",
    "SELECT t.hour, t.n, o.n AS of_odd FROM totals t LEFT JOIN odd o USING (hour) ORDER BY hour",
    "SELECT a.n, b.n FROM totals a JOIN totals b ON a.hour = b.hour + INTERVAL 1 HOUR ORDER BY a.hour",
    "SELECT hour, sum(n) OVER (ORDER BY hour ROWS UNBOUNDED PRECEDING), lag(n) OVER w FROM totals WINDOW w AS (ORDER BY hour) ORDER BY 1",
    "SELECT hour, rank() OVER (PARTITION BY n > 1 ORDER BY n, hour), ntile(2) OVER (ORDER BY hour) FROM totals ORDER BY 1",
    "WITH a AS (SELECT hour, n FROM totals), b AS (FROM a WHERE n > 1) SELECT count(*), max(hour), avg(n) FROM b",
    "WITH RECURSIVE r AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT i, n FROM r LEFT JOIN totals ON hour(hour) = i ORDER BY i",
    "SELECT state, count(*) FILTER (n > 1), string_agg(n::VARCHAR, ',' ORDER BY hour) FROM totals GROUP BY state HAVING count(*) > 0 ORDER BY state",
    "SELECT strftime(hour, '%H'), time_bucket(INTERVAL 2 HOURS, hour), date_trunc('day', hour) FROM totals ORDER BY hour",
    "SELECT hour AT TIME ZONE 'Asia/Kolkata', extract(dow FROM hour) FROM totals ORDER BY hour",
    "SELECT CASE WHEN n > 1 THEN 'many' ELSE 'few' END AS size, sum(n) FROM totals GROUP BY ROLLUP (size) ORDER BY ALL",
    "SELECT n FROM totals WHERE hour IN (SELECT hour FROM odd) ORDER BY n LIMIT 2 OFFSET 1",
    "SELECT * EXCLUDE (state) REPLACE (n * 2 AS n) FROM totals QUALIFY row_number() OVER (ORDER BY hour DESC) <= 2 ORDER BY hour",
    "SELECT name, hour, state, events, closed FROM hours ORDER BY ALL",
    "SELECT publication, metric, cutoff, current FROM publications ORDER BY ALL",
    "SELECT count(*) FROM events_clicks",
    "SELECT count(*) FROM totals, odd",
    "SELECT totals FROM totals ORDER BY hour",
    "SELECT n FROM totals UNION ALL SELECT n FROM odd ORDER BY n",
    "SELECT [x * 2 for x in [1, 2] if x > 1], {'a': n}.a, list_transform([n], lambda x: x + 1) FROM totals ORDER BY n",
    "SELECT n::DECIMAL(10, 2), TRY_CAST(state AS INT), 'final'::ENUM('final'), n BETWEEN 1 AND 2 FROM totals ORDER BY hour",
    "FROM (PIVOT totals ON state IN ('final', 'provisional') USING sum(n) GROUP BY hour) ORDER BY hour",
    "SELECT a, b FROM totals t(a, b) ORDER BY a",
    "SELECT * FROM totals NATURAL JOIN odd ORDER BY hour",
    "SELECT #1 FROM totals ORDER BY 1",
    "VALUES (1, 'x'), (NULL, 'y')",
    "SELECT n FROM TOTALS WHERE false",
    "SELECT 1 AS a, 2 AS a, NULL, 9007199254740993, 12345678901234567890123456789012345678::HUGEINT, 'nan'::DOUBLE",
    'SELECT "offset", reason, value FROM rejected_clicks ORDER BY ALL',
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> BareTables:
    tables = BareTables(tmp_path_factory.mktemp("tables"), hours=[0, 1, 2, 2, 1, 2, 3, 3])
    tables.start()
    tables.micro_batch(4)
    tables.publish(0, 1, 2)
    tables.micro_batch(4)
    return tables


@pytest.fixture(scope="module")
def connection(tables: BareTables) -> Iterator[serving_layer.Connection]:
    with serving_layer.connect(tables.project) as connection:
        yield connection


@pytest.fixture(scope="module")
def safe() -> Iterator[Sandbox]:
    running = Sandbox(LIMITS, workers=1)
    yield running
    running.close()


class Canary:
    """A file with a secret, and a listener; at the end, the file and its folder are as they were, and nobody has
    connected.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "secret.csv"
        self.file.write_text(f"a,b\n{SECRET},1\n")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0)

    def query(self, escape: str) -> str:
        for name, value in {
            "file": self.file,
            "folder": self.file.parent,
            "port": self._listener.getsockname()[1],
        }.items():
            escape = escape.replace(f"{{{name}}}", str(value))
        return escape

    def check(self) -> None:
        assert self.file.read_text() == f"a,b\n{SECRET},1\n"
        assert list(self.file.parent.iterdir()) == [self.file]
        with pytest.raises(BlockingIOError):  # the kernel would have accepted for us
            self._listener.accept()
        self._listener.close()


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    canary = Canary(tmp_path)
    yield canary
    canary.check()


def test_a_canary_would_notice(tmp_path: Path) -> None:
    canary = Canary(tmp_path)
    with socket.create_connection(("127.0.0.1", int(canary.query("{port}")))), pytest.raises(pytest.fail.Exception):
        canary.check()


def test_an_answer_is_what_the_query_gives_without_the_sandbox(
    safe: Sandbox, connection: serving_layer.Connection
) -> None:
    for query in GOOD:
        expected = connection.sql(query).to_arrow_table()
        with connection.explaining(query):
            got = safe.answer(query, connection.database.cursor(), connection.views)
        assert got.schema.types == expected.schema.types, query
        assert got.to_pylist() == expected.to_pylist() or "nan" in query, query


def test_sketches_are_rolled_up(safe: Sandbox) -> None:
    database = duckdb.connect()
    install_sketch_functions(database)
    database.execute("CREATE TABLE visits (hour INTEGER, visitors BLOB)")
    for hour in range(3):
        sketch = update_theta_sketch()
        for visitor in range(hour * 10, hour * 10 + 20):
            sketch.update(visitor)
        database.execute("INSERT INTO visits VALUES (?, ?)", [hour, sketch.compact().serialize()])
    query = "SELECT distinct_count(visitors) FROM visits"
    assert safe.answer(query, database, ["visits"]).to_pylist() == database.sql(query).to_arrow_table().to_pylist()
    assert safe.answer(query, database, ["visits"]).column(0).to_pylist() == [40]
    by_two = "SELECT hour // 2 AS two, distinct_merge(visitors) AS visitors FROM visits GROUP BY two"
    counted = safe.answer(
        f"SELECT distinct_count(visitors) FROM ({by_two}) GROUP BY two ORDER BY two", database, ["visits"]
    )
    assert counted.column(0).to_pylist() == [30, 20]


def test_histograms_are_rolled_up(safe: Sandbox) -> None:
    database = duckdb.connect()
    install_sketch_functions(database)
    database.execute(
        "CREATE TABLE visits AS SELECT h % 2 AS hour, [{'x': h::INTEGER, 'y': 1.0::DOUBLE}] AS p FROM range(9) r(h)"
    )
    for query in (
        "SELECT quantile_value(p, 0.5), quantile_value(p, 1) FROM visits",
        "SELECT hour, quantile_merge(p) FROM visits GROUP BY hour ORDER BY hour",
    ):
        assert safe.answer(query, database, ["visits"]).to_pylist() == database.sql(query).to_arrow_table().to_pylist()


def test_frequent_values_are_rolled_up(safe: Sandbox) -> None:
    database = duckdb.connect()
    install_sketch_functions(database)
    database.execute(
        "CREATE TABLE visits AS SELECT h % 2 AS hour, top_fold((h % 4)::VARCHAR) AS t, count(*) AS t__n "
        "FROM range(9) r(h) GROUP BY hour"
    )
    for query, rows in (
        ("SELECT top_values(t, t__n, 1) AS v FROM visits", 1),
        ("SELECT hour, top_merge(t) AS t, sum(t__n) AS t__n FROM visits GROUP BY hour ORDER BY hour", 2),
    ):
        answer = safe.answer(query, database, ["visits"]).to_pylist()
        assert answer == database.sql(query).to_arrow_table().to_pylist() and len(answer) == rows


def test_every_escape_is_refused_with_the_part_that_is(
    safe: Sandbox, connection: serving_layer.Connection, canary: Canary
) -> None:
    assert len(REFUSED) + len(BOMBS) + len(ENDLESS) > 50
    wrong = {}
    for escape, part in REFUSED.items():
        try:
            told = str(safe.answer(canary.query(escape), connection.database.cursor(), connection.views).to_pylist())
        except (UsageError, duckdb.Error) as refused:
            told = str(refused)
            if re.search(part, told, re.IGNORECASE) and SECRET not in told:
                continue
        wrong[escape] = told
    assert wrong == {}


@pytest.mark.parametrize("bombs", [BOMBS, pytest.param(SLOW_BOMBS, marks=pytest.mark.long)], ids=["quick", "slow"])
def test_bombs_are_contained_and_the_next_query_is_answered(
    bombs: list[str], safe: Sandbox, connection: serving_layer.Connection
) -> None:
    for bomb in bombs:
        try:
            answer = safe.answer(bomb, connection.database.cursor(), connection.views)
        except (HourlineError, duckdb.Error) as error:
            assert "Traceback" not in str(error), (bomb[:100], str(error))
        else:
            assert answer.nbytes <= LIMITS.bytes, bomb[:100]
    assert safe.answer("SELECT 1", connection.database.cursor(), []).num_rows == 1


def test_an_answer_that_is_too_large_is_refused(safe: Sandbox) -> None:
    with duckdb.connect() as database:
        for query in ("FROM range(10001)", "SELECT repeat('x', 1100000)", "SELECT repeat('x', 2000) FROM range(9000)"):
            with pytest.raises(TooLargeError, match=r"10,000 rows or 1,048,576 bytes"):
                safe.answer(query, database, [])
        with pytest.raises(TooLargeError, match="256 MB of memory"):
            safe.answer("SELECT list_resize([1], 2000000000)", database, [])
        database.execute("CREATE VIEW large AS SELECT a, repeat('x', 1000) AS text FROM range(1000000) t(a)")
        with pytest.raises(TooLargeError, match="reads more than 128 MB of large"):
            safe.answer("SELECT max(text) FROM large", database, ["large"])
        # Only what is named is read.
        assert safe.answer("SELECT count(*), max(a) FROM large", database, ["large"]).to_pylist() == [
            {"count_star()": 1_000_000, "max(a)": 999_999}
        ]
        with pytest.raises(TooLargeError, match="characters"):
            safe.answer(f"SELECT '{'x' * 50_000}'", database, [])


@pytest.mark.parametrize("endless", [ENDLESS[:2], pytest.param(ENDLESS, marks=pytest.mark.long)], ids=len)
def test_what_takes_for_ever_is_stopped_and_the_next_query_is_answered(
    endless: list[str], connection: serving_layer.Connection
) -> None:
    quick = Sandbox(Limits(seconds=2, memory=256 << 20, rows=100, bytes=1 << 20), workers=1)
    try:
        for query in endless:
            with pytest.raises(TimedOutError):
                quick.answer(query, connection.database.cursor(), connection.views)
        with duckdb.connect() as database:
            # The server's own part of the work counts, too.
            database.execute("CREATE VIEW slow AS SELECT count(*) AS n FROM range(1000000000) a, range(1000000000) b")
            with pytest.raises(TimedOutError):
                quick.answer("FROM slow", database, ["slow"])
            assert quick.answer("SELECT 1", database, []).num_rows == 1
    finally:
        quick.close()


UNCHECKED = """
import sys
import duckdb
from serving_layer.http.sandbox import process, sql_check
sql_check.check = lambda database, sql, views: sql_check.Reads()
"""
"""The process without the check."""

UNLOCKED = f"""{UNCHECKED}
process._database = lambda limits: duckdb.connect(config={{"threads": 1, "memory_limit": f"{{limits.memory}}B"}})
"""
"""And without DuckDB's own locks: nothing but the operating system holds it."""


# What the operating system alone holds, it holds beside DuckDB's locks, too.
@pytest.mark.parametrize("weakened", [UNLOCKED, pytest.param(UNCHECKED, marks=pytest.mark.long)])
def test_without_the_check_the_process_alone_contains_them(
    weakened: str, canary: Canary, connection: serving_layer.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_COMMAND", [sys.executable, "-P", "-c", f"{weakened}\nsys.exit(process.main())"])
    bare = Sandbox(Limits(seconds=10, memory=256 << 20, rows=10_000, bytes=1 << 20), workers=1)
    try:
        harmless = 0
        for escape in [*REFUSED, *BOMBS[:11]]:
            if "sleep" in escape:
                continue
            try:
                answer = str(
                    bare.answer(canary.query(escape), connection.database.cursor(), connection.views).to_pylist()
                )
            except (HourlineError, duckdb.Error) as error:
                answer = str(error)
                assert "Traceback" not in answer, (escape[:100], answer)
            else:
                harmless += 1
            assert SECRET not in answer, escape
        assert 0 < harmless < len(REFUSED)  # SELECT 1; SELECT 2
    finally:
        bare.close()


def test_a_query_leaves_nothing_to_the_next_one(safe: Sandbox, connection: serving_layer.Connection) -> None:
    safe.answer("FROM totals", connection.database.cursor(), connection.views)
    with pytest.raises(UsageError, match="no view 'totals'"):
        safe.answer("FROM totals", connection.database.cursor(), [])


def test_a_worker_that_was_killed_is_started_again(connection: serving_layer.Connection) -> None:
    running = Sandbox(LIMITS, workers=1)
    try:
        running._workers[0]._process.kill()
        running._workers[0]._process.wait()
        assert running.answer("SELECT 1", connection.database.cursor(), []).num_rows == 1
    finally:
        running.close()


def test_more_queries_than_workers_are_told_to_come_again(connection: serving_layer.Connection) -> None:
    running = Sandbox(LIMITS, workers=1)
    begun = threading.Event()

    def view() -> int:
        begun.set()
        return 1

    database = duckdb.connect()
    database.create_function("begin", view, [], "BIGINT", side_effects=True)
    database.execute("CREATE VIEW v AS SELECT begin() AS n")
    endless = threading.Thread(
        target=lambda: _ignoring(running, "SELECT count(*) FROM v, range(1000000000000) a, range(1000000) b", database)
    )
    endless.start()
    try:
        assert begun.wait(600)
        with pytest.raises(TooManyError, match="1 free queries run already"):
            running.answer("SELECT 1", connection.database.cursor(), [])
    finally:
        running.close()
        endless.join()


def test_processes_end_with_the_sandbox() -> None:
    running = Sandbox(LIMITS, workers=2)
    processes = [worker._process.pid for worker in running._workers]
    running.close()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_processes_end_with_a_server_that_is_killed() -> None:
    code = """if True:
        from serving_layer.http.sandbox.process import Limits
        from serving_layer.http.sandbox.sandbox import Sandbox
        running = Sandbox(Limits(60, 256 << 20, 10, 10_000), 1)
        print(running._workers[0]._process.pid, flush=True)
        input()"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout
        worker = os.pidfd_open(int(server.stdout.readline()))
        server.kill()
    assert select.select([worker], [], [], 300)[0]
    os.close(worker)


def test_where_queries_cannot_be_confined_free_sql_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SetupError, match="needs Linux"):
        Sandbox(LIMITS)
    monkeypatch.undo()
    unfiltered = (
        f"{UNCHECKED}\nfrom serving_layer.http.sandbox import confinement\n"
        "confinement._filter = lambda: confinement._instruction(6, 0x7FFF0000)"
    )
    monkeypatch.setattr(worker, "_COMMAND", [sys.executable, "-P", "-c", f"{unfiltered}\nsys.exit(process.main())"])
    _send_only_to_ended_processes(monkeypatch, "_converse")
    with pytest.raises(SetupError, match="applies no seccomp filter"):
        Sandbox(LIMITS, workers=1)


def test_the_error_of_a_process_that_ended_while_it_was_sent_rows_is_told(
    monkeypatch: pytest.MonkeyPatch, connection: serving_layer.Connection
) -> None:
    full = (
        "import sys\nfrom serving_layer.http.sandbox import process\n"
        "def take(*_):\n    raise MemoryError\nprocess._take = take"
    )
    monkeypatch.setattr(worker, "_COMMAND", [sys.executable, "-P", "-c", f"{full}\nsys.exit(process.main())"])
    running = Sandbox(LIMITS, workers=1)
    _send_only_to_ended_processes(monkeypatch, "_send")
    try:
        with pytest.raises(TooLargeError, match="needs more than 256 MB of memory"):
            running.answer("FROM totals", connection.database.cursor(), VIEWS)
    finally:
        running.close()


def _send_only_to_ended_processes(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """The Sandbox's ``method`` waits until the process at the other end of its first argument has ended."""
    forks: dict[int, Fork] = {}
    create, send = Worker._fork, getattr(Sandbox, method)

    def fork(self: Worker) -> Fork:
        new = create(self)
        forks[id(new.connection)] = new
        return new

    def wait_and_send(self: Sandbox, connection: Connection, *arguments: object) -> object:
        assert select.select([forks[id(connection)]._handle], [], [], 300)[0]
        return send(self, connection, *arguments)

    monkeypatch.setattr(Worker, "_fork", fork)
    monkeypatch.setattr(Sandbox, method, wait_and_send)


def test_the_environment_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURLINE_ADMIN_TOKEN", SECRET)
    running = Sandbox(LIMITS, workers=1)
    try:
        environment = Path(f"/proc/{running._workers[0]._process.pid}/environ").read_text()
    finally:
        running.close()
    assert SECRET not in environment


def _ignoring(running: Sandbox, query: str, database: duckdb.DuckDBPyConnection) -> None:
    with suppress(HourlineError):
        running.answer(query, database, ["v"])
