"""The declarations under which a day is decoded anew."""

from pathlib import Path

from benchmarks.decoding import write_day
from hourline import load_project


def test_the_first_declaration_of_a_day_knows_nothing_of_the_quantity(tmp_path: Path) -> None:
    project = load_project(write_day(tmp_path, "localhost:9092", "orders", None))
    keys = {field.key or name for name, field in project.sources["orders"].fields.items()}
    assert "quantity" not in keys
    assert set(project.metrics["shops"].measures) == {"events", "amount"}


def test_each_later_declaration_of_a_day_reads_the_quantity_under_a_name_of_its_own(tmp_path: Path) -> None:
    for name in ("quantity0", "quantity1"):
        project = load_project(write_day(tmp_path, "localhost:9092", "orders", name))
        fields = project.sources["orders"].fields
        assert fields[name].key == "quantity"
        assert len(fields) == 9
        assert set(project.metrics["shops"].measures) == {"events", "amount", "most"}
