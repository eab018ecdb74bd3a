"""How values travel over HTTP: JSON, CSV and Arrow."""

import csv
import io
import json
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from tests.support.bare_tables import hour
from tests.support.visits_tables import ODD, Visit, iso, serving, visit_tables


def test_lists_are_the_same_in_every_format_and_for_one_hour(client: httpx.Client) -> None:
    shop = "/api/v1/metrics/visits?where=page:/shop/boots&dimension=page&grain=total"
    (row,) = client.get(shop).json()["rows"]
    assert [set(one) for one in row["often"]] == [{"value", "count", "error"}] * 2
    (cells,) = csv.DictReader(io.StringIO(client.get(f"{shop}&format=csv").text))
    assert json.loads(cells["often"]) == row["often"]
    table = pa.ipc.open_stream(client.get(f"{shop}&format=arrow").content).read_all()
    assert table["often"].to_pylist() == [row["often"]]
    (texts,) = client.get(f"{shop}&integers=text").json()["rows"]
    assert [{**one, "count": int(one["count"]), "error": int(one["error"])} for one in texts["often"]] == row["often"]
    of_hour = client.get(
        f"/api/v1/metrics/visits?where=page:/shop/boots&from={iso(hour(0))}&to={iso(hour(1))}&dimension=page&grain=total"
    )
    cell = client.get(f"/api/v1/metrics/visits/hours/{iso(hour(0))}?where=page:/shop/boots")
    assert cell.json()["measures"]["often"] == of_hour.json()["rows"][0]["often"]


def test_csv_and_arrow_say_the_same_as_json(client: httpx.Client) -> None:
    expected = client.get("/api/v1/metrics/visits").json()
    answer = client.get("/api/v1/metrics/visits", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["hourline-token"] == expected["token"]
    read = list(csv.DictReader(io.StringIO(answer.text)))
    assert [
        {
            name: "" if value is None else str(value)
            for name, value in row.items()
            if name not in ("longest", "mean_size", "visits_of_each", "frequency", "often")
        }
        for row in expected["rows"]
    ] == [
        {
            name: value
            for name, value in row.items()
            if name not in ("longest", "mean_size", "visits_of_each", "frequency", "often")
        }
        for row in read
    ]
    assert [float(row["longest"]) for row in read] == [row["longest"] for row in expected["rows"]]
    answer = client.get("/api/v1/metrics/visits?format=arrow&limit=5")
    table = pa.ipc.open_stream(answer.content).read_all()
    assert 'rel="next"' in answer.headers["link"]
    assert table["hour"].type == pa.timestamp("us", tz="UTC")
    assert table["spent"].cast(pa.int64()).to_pylist() == [row["spent"] for row in expected["rows"][:5]]
    assert json.loads(table.schema.metadata[b"states"]) == expected["states"]


def test_integers_keep_all_their_digits_and_what_is_no_number_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = [
        Visit.of(0, "/a", ODD, ODD, float("nan")),
        Visit.of(0, "/b", 1, 1, float("inf")),
        Visit.of(0, "/c", 1, 1, 1e300),
    ]
    tables = visit_tables(tmp_path, visits, monkeypatch)
    tables.start()
    tables.micro_batch(3)
    with serving(tables.project) as client:
        answer = client.get("/api/v1/metrics/visits")
        assert f'"spent":{ODD},' in answer.text and f'"size":{ODD},' in answer.text
        assert [row["longest"] for row in answer.json()["rows"]] == [None, None, 1e300]
        texts = client.get("/api/v1/metrics/visits?integers=text&where=page:/a").json()["rows"][0]
        assert (texts["spent"], texts["size"], texts["views"]) == (str(ODD), str(ODD), "1")
        cell = client.get(f"/api/v1/metrics/visits/hours/{iso(hour(0))}?where=page:/a")
        assert f'"spent":{ODD},' in cell.text and cell.json()["measures"]["longest"] is None
        assert client.get("/api/v1/metrics/visits?format=csv&where=page:/a").text.splitlines()[1].count(",,") == 1
