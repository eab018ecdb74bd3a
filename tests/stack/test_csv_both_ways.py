"""The same CSV file, imported and replayed, gives the same events and the same reasons."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

SOURCE = """\
    topic: TOPIC
    fields:
      code: {type: string, required: true}
      pieces: int
      price: decimal(9,2)
      fragile: boolean
      tags: array<string>
      at: timestamp
    event_time: at
    """
FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/imported.yaml": SOURCE.replace("TOPIC", "csv_imported"),
    "sources/replayed.yaml": SOURCE.replace("TOPIC", "csv_replayed"),
    "metrics/a.yaml": "source: imported\ndimensions: [code]\nmeasures: {n: count}\n",
    "metrics/b.yaml": "source: replayed\ndimensions: [code]\nmeasures: {n: count}\n",
}
AT = "2024-03-01T10:00:00Z"
ROWS = [
    f"1.10,1,2.50,TRUE,,{AT},x",
    f"1.1,2,1234567.89,False,[],{AT},",
    f'12345678.9,,,,"[""a"", null]",{AT},1',
    f'"",-3,-0.05,true,,{AT},""',
    f"TRUE,4,7,,,{AT},",
    f"007,007,1,,,{AT},",
    f"NA,n/a,1,,,{AT},",
    f"a, 5,1,,,{AT},",
    f"b,6,1,yes,,{AT},",
    f"c,7,1,,one,{AT},",
    "d,8,1,,,2024-03-01,",
    f",9,1,,,{AT},",
    f"e,99999999999,1,,,{AT},",
    f"caf\udce9,10,1,,,{AT},",
]
EVENTS = [("", -3), ("1.1", 2), ("1.10", 1), ("12345678.9", None), ("TRUE", 4)]


# In CI, test_files_of_records.py imports and replays a CSV, and tests/unit/formats/test_csv_oracle.py compares each cell.
@pytest.mark.long
def test_a_csv_file_is_the_same_events_and_reasons_when_imported_and_when_replayed(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path / "project", FILES), kafka, {})
    file = tmp_path / "history.csv"
    text = "\n".join(["code,pieces,price,fragile,tags,at,undeclared", *ROWS]) + "\n"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    project.command("import", str(file), "--source", "imported", "--no-backfill")
    project.command("replay", str(file), "--source", "replayed")
    project.drain()

    imported, replayed = (project.table("events", source) for source in ("imported", "replayed"))
    assert sorted((row["code"], row["pieces"]) for row in imported) == EVENTS
    assert by_code(imported) == by_code(replayed)
    imported, replayed = (project.table("rejected", source) for source in ("imported", "replayed"))
    assert reasons(imported) == reasons(replayed)
    said = {row["offset"]: row["reason"] for row in imported}
    assert len(said) == len(ROWS) - len(EVENTS)
    for offset, words in {5: "pieces", 6: "n/a", 7: "pieces", 8: "fragile", 9: "tags", 10: "at", 13: "UTF-8"}.items():
        assert words in said[offset]


def by_code(events: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    fields = ("code", "pieces", "price", "fragile", "tags", "at", "event_time")
    return sorted((tuple(map(row.get, fields)) for row in events), key=repr)


def reasons(rejected: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return sorted((row["offset"], row["reason"]) for row in rejected)
