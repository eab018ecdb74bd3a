"""Arrow Flight SQL: what ADBC's driver reads is the answer, of every measure and type, new or of an earlier snapshot."""

import sys
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import pyarrow as pa
import pyarrow.flight
import pytest

import serving_layer
from serving_layer.flight.messages import flight
from serving_layer.http.server import Server
from tests.protocol import test_measures_in_windows as measures
from tests.support import visits as visits_support
from tests.support.bare_tables import BareTables
from tests.support.flight_clients import ADMIN, COOKIES, Bare, ask, connected, flight_server, read
from tests.support.http_answers import VISITS
from tests.support.visits import Visit, Visits
from tests.support.visits_tables import grouped
from tests.support.window_oracle import DECLARED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")

AS_OF = "adbc.flight.sql.session.option.as_of"
ERASED = "adbc.flight.sql.session.optionerase.as_of"
HEADER = "adbc.flight.sql.rpc.call_header."


def test_an_answer_is_that_of_plain_python(server: Server) -> None:
    rows = ask(server, "SELECT * EXCLUDE state FROM visits").to_pylist()
    found = {(row.pop("hour"), row.pop("page"), row.pop("size")): row for row in rows}
    assert len(found) == len(rows)
    wanted = grouped(VISITS[:58], "hour", "page", "size")
    assert found.keys() == wanted.keys()
    for key, values in wanted.items():
        assert found[key] == {
            name: pytest.approx(value) if isinstance(value, float) else value for name, value in values.items()
        }


def test_every_measure_and_state_is_that_of_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits_support, "FILES", {**visits_support.FILES, **measures.FILES})
    monkeypatch.setattr(visits_support, "tiles", measures.fold)
    monkeypatch.setattr(visits_support, "tile_schema", lambda metric: measures.fold([], metric).schema)
    declared = DECLARED[2]
    visits = Visits(tmp_path, declared.yaml)
    visits.start()
    visits.micro_batch(*(Visit(220 + n % 3, "ab"[n % 2], n * n % 301) for n in range(40)))
    visits.publish(220)
    visits.micro_batch(Visit(220, "a", 900), Visit(223, "b", 1))
    with flight_server(visits.project) as server:
        rows = ask(server, "FROM loads").to_pylist()
        rolled_up = ask(
            server,
            "SELECT page, distinct_count(different) AS different, quantile_value(middle, 0.5) AS middle, "
            "top_values(often, often__n, 2) AS often FROM loads_states GROUP BY page",
        ).to_pylist()
    found = {(row["window_start"], row["window_end"], row["page"]): row for row in rows}
    wanted = measures.expected(visits.visits, declared)
    assert len(wanted) > 10 and found.keys() == wanted.keys()
    for key, values in wanted.items():
        assert {name: found[key][name] for name in values} == values, key
    for row in rolled_up:
        of_page = [visit.ms for visit in visits.visits if visit.page == row["page"]]
        assert row == {
            "page": row["page"],
            **{name: measures.MEASURES[name][2](of_page) for name in ("different", "middle", "often")},
        }


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1::TINYINT, 2::UBIGINT, 9007199254740993, 170141183460469231731687303715884105727::HUGEINT % 1000000007",
        "SELECT 1.5::DECIMAL(10, 2) AS d, 1.5::FLOAT AS f, 'nan'::DOUBLE AS n, -0.0 AS z, true AS b, NULL AS nothing",
        "SELECT TIMESTAMPTZ '2024-03-01 01:00:00.25Z' AS t, DATE '2024-03-01' AS d, TIME '10:00' AS h, INTERVAL 1 MONTH AS i",
        "SELECT 'ümlaut' AS text, ''::VARCHAR AS nothing, '\\xFF'::BLOB AS bytes, 'final'::ENUM('final', 'open') AS e",
        "SELECT [1, NULL] AS list, {'a': [{'b': 1}]} AS struct, MAP {'a': 1} AS map, 1 AS a WHERE true",
        "SELECT hour, n, 'x' AS x FROM totals WHERE false",
        "SELECT range AS n, repeat('x', 100) AS text FROM range(40000)",
        "FROM visits ORDER BY ALL",
        "FROM visits_states ORDER BY hour, page, size",
        "FROM hours ORDER BY ALL",
        "FROM rejected_clicks ORDER BY ALL",
    ],
)
def test_an_answer_has_the_types_and_values_that_duckdb_gives(tables: BareTables, server: Server, query: str) -> None:
    with serving_layer.connect(tables.project) as connection:
        wanted = connection.sql(query).to_arrow_table()
    found = ask(server, query)
    assert found.schema == wanted.schema
    assert str(found.to_pylist()) == str(wanted.to_pylist())  # NaN is not equal to itself.


def test_duckdb_reads_an_answer_as_it_comes(server: Server) -> None:
    with connected(server) as connection, connection.cursor() as cursor, duckdb.connect() as database:
        cursor.execute("FROM visits")
        answer = cursor.fetch_record_batch()
        database.register("answer", answer)
        found = dict(database.sql("SELECT page, sum(views)::BIGINT FROM answer GROUP BY page").fetchall())
    assert found == {page: values["views"] for (page,), values in grouped(VISITS[:58], "page").items()}


def test_two_columns_of_one_name_are_told_apart(server: Server) -> None:
    assert ask(server, "SELECT 1 AS a, 2 AS A, 3 AS a").to_pylist() == [{"a": 1, "A_1": 2, "a_2": 3}]


def test_an_old_answer_is_given_again_by_its_token(tables: BareTables, server: Server) -> None:
    total = "SELECT sum(n)::BIGINT AS n FROM totals"
    before = ask(server, total)
    token = before.schema.metadata[b"token"].decode()
    # A client that has prepared a query before new records come gets them, too.
    with connected(server, **COOKIES) as connection, connection.cursor() as cursor:
        cursor.adbc_prepare(total)
        tables.micro_batch(1)
        while (newest := ask(server, total)) == before:
            pass
        cursor.execute(total)
        assert cursor.fetch_arrow_table() == newest
        assert newest.to_pylist() == [{"n": before["n"][0].as_py() + 1}]
        assert newest.schema.metadata[b"token"].decode() != token

        connection.adbc_connection.set_options(**{AS_OF: token})
        again = read(connection, total)
        assert again.to_pylist() == before.to_pylist() and again.schema.metadata == before.schema.metadata
        assert connection.adbc_connection.get_option("adbc.flight.sql.session.options") == f'{{"as_of":"{token}"}}'
        connection.adbc_connection.set_options(**{ERASED: ""})
        assert read(connection, total).to_pylist() == newest.to_pylist()
    assert ask(server, total, **{f"{HEADER}hourline-as-of": token}).to_pylist() == before.to_pylist()


def test_a_ticket_is_answered_by_any_server_and_again(tables: BareTables, server: Server) -> None:
    query = "SELECT hour, n FROM totals ORDER BY hour"
    with Bare(server) as first, flight_server(tables.project) as other, Bare(other) as second:
        ticket = first.ticket_of(query)
        answers = [list(one.stream("DoGet", ticket)) for one in (second, first, first)]
    assert answers[0] == answers[1] == answers[2]
    options = pa.flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {ADMIN}".encode())])
    with serving_layer.connect(tables.project) as connection, pa.flight.connect(str(server.flight_url)) as client:
        rows = client.do_get(pa.flight.Ticket(flight.Ticket.FromString(ticket).ticket), options).read_all()
        assert rows.to_pylist() == connection.sql(query).to_arrow_table().to_pylist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({AS_OF: "p99"}, "there is no publication 99 yet; the newest is 1"),
        ({"adbc.flight.sql.session.option.asof": "p1"}, "there is no session option 'asof'; there is as_of"),
        ({"adbc.flight.sql.session.optionbool.as_of": "true"}, "as_of is a text: a token or a time"),
    ],
)
def test_a_session_option_that_cannot_be_is_refused(server: Server, options: dict[str, str], sentence: str) -> None:
    with connected(server, **COOKIES) as connection:
        read(connection, "SELECT 1")
        with pytest.raises(adbc.Error, match=sentence):
            connection.adbc_connection.set_options(**options)


def test_a_session_option_of_a_client_that_would_lose_it_is_refused(server: Server) -> None:
    with (
        connected(server) as connection,
        pytest.raises(adbc.Error, match=r"need a client that keeps cookies.*with_cookie_middleware=true"),
    ):
        connection.adbc_connection.set_options(**{AS_OF: "p1-clicks.2"})


def test_an_answer_waits_for_what_it_is_to_count(server: Server) -> None:
    counted = {f"{HEADER}hourline-at-least": "clicks:0=57", f"{HEADER}prefer": "wait=0"}
    assert ask(server, "SELECT 1 AS a FROM totals LIMIT 1", **counted).to_pylist() == [{"a": 1}]
    with pytest.raises(adbc.OperationalError, match=r"TIMEOUT.*clicks"):
        ask(server, "FROM totals", **{**counted, f"{HEADER}hourline-at-least": "clicks:0=5000"})


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"hourline-as-of": "p99"}, "there is no publication 99 yet"),
        ({"hourline-at-least": "clicks:zero=1"}, "clicks:zero=1"),
        ({"hourline-at-least": "now", "prefer": "wait=x"}, "Prefer: wait=x"),
        ({"hourline-at-least": "now", "hourline-as-of": "p1-clicks.2"}, "is about the newest result"),
    ],
)
def test_a_header_that_cannot_be_is_refused(server: Server, headers: dict[str, str], sentence: str) -> None:
    with pytest.raises(adbc.Error, match=sentence):
        ask(server, "SELECT 1", **{f"{HEADER}{name}": value for name, value in headers.items()})
