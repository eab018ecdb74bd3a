"""A row of a CSV file is kept as texts. What they stand for is up to the declaration, also to a later one."""

from pathlib import Path

import pytest

import serving_layer
from hourline import load_project
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\n',
    "sources/visits.yaml": """\
        topic: csv_history
        fields: {at: timestamp, zip: string, ms: string}
        event_time: at
        """,
    "metrics/by_zip.yaml": "{source: visits, dimensions: {zip: zip}, measures: {visits: count}}",
}
ROWS = """\
at,zip,ms
2026-03-02T08:00:00Z,01067,5
2026-03-02T08:10:00Z,1067,007
2026-03-02T08:20:00Z,"",7
2026-03-02T08:30:00Z,,n/a
2026-03-02T08:40:00Z,1.10,8
"""


@pytest.mark.long
def test_a_row_of_a_csv_file_is_decoded_anew_as_another_type(kafka: str, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text(ROWS)
    folder = write_project(tmp_path / "project", FILES)
    project = StackProject(folder, kafka, {})
    project.command("import", str(file), "--source", "visits")
    with serving_layer.connect(project.project) as connection:
        assert connection.sql("SELECT zip FROM by_zip ORDER BY zip NULLS LAST").fetchall() == [
            ("",),
            ("01067",),
            ("1.10",),
            ("1067",),
            (None,),
        ]
    (folder / "sources/visits.yaml").write_text(
        "{topic: csv_history, fields: {at: timestamp, zip: string, ms: int}, event_time: at}"
    )
    (folder / "metrics/by_zip.yaml").write_text("{source: visits, measures: {visits: count, ms: sum(ms)}}")
    project.project = load_project(folder, {"KAFKA": kafka})
    project.drain()
    project.command("recompute", "--from", "2026-03-02T08", "--to", "2026-03-02T09", "--include-open")
    with serving_layer.connect(project.project) as connection:
        assert connection.sql("SELECT visits, ms, state FROM by_zip").fetchall() == [(3, 20, "final")]
