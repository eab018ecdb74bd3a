"""Free SQL over HTTP: off by default; for admins where it is on; what it refuses, it says in one sentence."""

import json
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from hourline_core.errors import SetupError
from hourline_core.model import ServeSettings, Settings
from serving_layer.http.server import Server
from tests.support.bare_tables import BareTables, hour

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")

READER, ADMIN = "reader-reader-reader", "admin-admin-admin-admin"
TOKENS = {"HOURLINE_READER_TOKEN": READER, "HOURLINE_ADMIN_TOKEN": ADMIN}
ON = ServeSettings(sql=True, rows=1000)
PACKAGE = "serving_layer.http.sandbox"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> BareTables:
    tables = BareTables(tmp_path_factory.mktemp("tables"), hours=[0, 1, 1])
    tables.start()
    tables.micro_batch(3)
    return tables


@pytest.fixture(scope="module")
def admin(tables: BareTables) -> Iterator[httpx.Client]:
    with _server(tables, ON) as server, _client(server, ADMIN) as client:
        yield client


def _server(tables: BareTables, settings: ServeSettings) -> Server:
    return Server(replace(tables.project, settings=Settings(serve=settings)), environ=TOKENS)


def _client(server: Server, token: str) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=600)


def _ask(client: httpx.Client, sql: str, **parameters: str) -> httpx.Response:
    return client.post("/sql", json={"sql": sql}, params=parameters)


def test_free_sql_is_off_by_default(tables: BareTables) -> None:
    with _server(tables, ServeSettings()) as server, _client(server, ADMIN) as client:
        assert client.get("/project").json()["sql"] is False
        answer = _ask(client, "SELECT 1")
    assert (answer.status_code, answer.json()) == (
        403,
        {"error": "free SQL is off; `serve: {sql: true}` in hourline.yaml enables it, for admins"},
    )


def test_free_sql_that_is_off_loads_nothing_of_it_and_that_is_not_installed_is_refused(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, PACKAGE, None)  # which is how Python remembers that there is no such module
    with _server(tables, ServeSettings()) as server, _client(server, ADMIN) as client:
        assert client.get("/metrics/totals").status_code == 200
    with pytest.raises(SetupError) as error:
        _server(tables, ON)
    assert "free SQL is on (serve.sql), but this installation comes without" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_admin_gets_rows_in_each_format(admin: httpx.Client) -> None:
    query = "SELECT hour, n, 9007199254740993 AS large, 'nan'::DOUBLE AS nan FROM totals ORDER BY hour"
    answer = _ask(admin, query).json()
    assert answer["token"] == "p0-clicks.1"  # noqa: S105
    assert [column["type"] for column in answer["columns"]] == [
        "TIMESTAMP WITH TIME ZONE",
        "BIGINT",
        "BIGINT",
        "DOUBLE",
    ]
    assert answer["rows"] == [
        {"hour": f"2024-03-01T0{number}:00:00Z", "n": number + 1, "large": 9007199254740993, "nan": None}
        for number in range(2)
    ]
    assert _ask(admin, query, integers="text").json()["rows"][0]["large"] == "9007199254740993"
    assert _ask(admin, "SELECT hour, n FROM totals ORDER BY hour", format="csv").text == (
        '"hour","n"\n"2024-03-01T00:00:00Z",1\n"2024-03-01T01:00:00Z",2\n'
    )
    assert {column["error"] for column in answer["columns"]} == {None}
    waiting = _ask(admin, query, waiting="true")
    assert waiting.headers["hourline-waiting"] == "clicks=unknown"
    assert [one["source"] for one in waiting.json()["waiting"]] == ["clicks"]
    nested = "SELECT [1.5, 'nan'::DOUBLE] AS list, {'a': [n]} AS struct FROM totals ORDER BY hour LIMIT 1"
    assert _ask(admin, nested).json()["rows"] == [{"list": [1.5, None], "struct": {"a": [1]}}]
    assert _ask(admin, nested, format="csv").text == '"list","struct"\n"[1.5,null]","{""a"":[1]}"\n'
    arrow = pa.ipc.open_stream(
        _ask(admin, "SELECT hour, n FROM totals ORDER BY hour", format="arrow").content
    ).read_all()
    assert arrow.to_pylist() == [{"hour": hour(0), "n": 1}, {"hour": hour(1), "n": 2}]


def test_a_column_may_be_called_anything(admin: httpx.Client, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    names = ["a", "a", "x', (SELECT content FROM read_text('" + str(secret) + "')), 'y", 'x", (SELECT 1) AS "y']
    columns = ", ".join(f'{number} AS "' + name.replace('"', '""') + '"' for number, name in enumerate(names))
    assert list(_ask(admin, f"SELECT {columns}").json()["rows"][0].items()) == list(
        zip(["a", "a_1", *names[2:]], range(4), strict=True)
    )
    assert "canary" not in _ask(admin, f"SELECT {columns}", format="csv").text


def test_each_query_has_random_numbers_of_its_own(admin: httpx.Client) -> None:
    query = "SELECT random() AS number, uuid()::VARCHAR AS id"
    answers = [_ask(admin, query).json()["rows"][0] for _ in range(6)]
    assert len({answer["number"] for answer in answers}) == len({answer["id"] for answer in answers}) == 6


def test_a_reader_is_refused(tables: BareTables) -> None:
    with _server(tables, ON) as server, _client(server, READER) as client:
        assert client.get("/project").json()["sql"] is False
        assert _ask(client, "SELECT 1").status_code == 403
        assert httpx.post(f"{server.url}/api/v1/sql", json={"sql": "SELECT 1"}, timeout=600).status_code == 401


def test_what_is_refused_is_said_in_one_sentence(admin: httpx.Client) -> None:
    for query, status, sentence in (
        ("FROM read_text('/etc/passwd')", 400, "free SQL may not contain the table function 'read_text'"),
        ("SELECT 1; SELECT 2", 400, "want exactly one SELECT"),
        ("FROM totls", 400, "there is no view 'totls' — did you mean 'totals'?"),
        ("SELECT nn FROM totals", 400, "there is no column 'nn'"),
        ("SELEC 1", 400, "the query cannot be answered: Parser Error"),
        ("SELECT list_resize([1], 2000000000)", 413, "256 MB of memory"),
        ("FROM range(1001)", 413, "more than 1,000 rows"),
        (f"SELECT '{'x' * 60_000}'", 413, "characters"),
        (f"SELECT '{'x' * 10_000_000}'", 413, "body"),
        (f"SELECT {'(' * 10_000}1{')' * 10_000}", 400, ""),
    ):
        answer = _ask(admin, query)
        assert answer.status_code == status, (query[:80], answer.text)
        assert list(answer.json()) == ["error"]
        assert sentence in answer.json()["error"]
        assert "Traceback" not in answer.text
    assert _ask(admin, "SELECT 1 AS a").json()["rows"] == [{"a": 1}]


def test_a_query_over_its_time_is_stopped(tables: BareTables) -> None:
    settings = ServeSettings.model_validate({"sql": True, "timeout": "2s"})
    with _server(tables, settings) as server, _client(server, ADMIN) as client:
        answer = _ask(client, "SELECT count(*) FROM range(1000000000000) a, range(1000000) b")
        assert answer.status_code == 504
        assert "stopped after 2 s" in answer.json()["error"]


def test_a_query_is_stopped_when_nobody_waits_for_it_any_more(tables: BareTables) -> None:
    settings = ServeSettings.model_validate({"sql": True, "timeout": "10m", "concurrent": 1})
    with _server(tables, settings) as server, _client(server, ADMIN) as client:
        body = json.dumps({"sql": "SELECT count(*) FROM range(1000000000000) a, range(1000000) b"})
        head = f"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\nContent-Type: application/json"
        url = httpx.URL(server.url)
        with socket.create_connection((url.host, url.port or 0)) as gone:
            gone.sendall(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            server_is_busy(client)
        # Its turn, and the process, are free again.
        assert _ask(client, "SELECT 1 AS a").json()["rows"] == [{"a": 1}]


def server_is_busy(client: httpx.Client) -> None:
    """Returns when a query runs that is not ours."""
    while True:
        try:
            client.get("/late", timeout=0.5)
        except httpx.ReadTimeout:
            return


def test_what_cannot_be_given_as_it_is_is_refused_by_name(admin: httpx.Client) -> None:
    for value, kind in (
        ("1::UHUGEINT", "UHUGEINT"),
        ("'101'::BIT", "BIT"),
        ("[TIMESTAMP_NS '2024-03-01 00:00:00.123456789']", "TIMESTAMP_NS"),
    ):
        answer = _ask(admin, f"SELECT {value} AS odd")
        assert answer.status_code == 400, value
        assert (
            f"column 'odd' of the answer is a {kind}, which cannot be given as it is; cast it to VARCHAR"
            in answer.json()["error"]
        )
        assert _ask(admin, f"SELECT ({value})::VARCHAR AS odd").status_code == 200
    wrapped = _ask(admin, "SELECT (-170141183460469231731687303715884105728)::HUGEINT AS odd")
    assert (wrapped.status_code, "has a HUGEINT of 39 digits" in wrapped.json()["error"]) == (400, True)
    exact = "SELECT TIMESTAMPTZ '2024-03-01 00:00:00.25Z' AS hour, INTERVAL 90 MINUTE AS taken, 18446744073709551615::UBIGINT AS most"
    row = {"hour": "2024-03-01T00:00:00.250000Z", "taken": "01:30:00", "most": 18446744073709551615}
    assert _ask(admin, exact).json()["rows"] == [row]
    assert _ask(admin, exact, integers="text").json()["rows"] == [{**row, "most": "18446744073709551615"}]


def test_a_body_that_is_no_question_is_told_so(admin: httpx.Client) -> None:
    answer = admin.post("/sql", content="SELECT 1")
    assert (answer.status_code, answer.json()["error"]) == (
        415,
        "the body is to be JSON; send it with the header `Content-Type: application/json`",
    )
    answer = admin.post("/sql", content="{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"].startswith("the body is no JSON: ")) == (400, True)
