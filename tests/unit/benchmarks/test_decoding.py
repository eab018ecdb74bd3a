"""The declarations under which a day is decoded anew."""

from pathlib import Path

import pytest

from benchmarks.decoding import Decoded, figures, write_day
from benchmarks.draining import Drained
from benchmarks.figures import Figure
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


def test_the_start_up_is_what_a_day_of_the_first_events_takes() -> None:
    peer = Drained(500_000, 1_000_000, started=1, compiling=0, driver=0, java=0, collecting=0, largest=1)
    found = figures(3_000_000, 1_000_000, [Decoded(anew=16, kept=8)], [Decoded(anew=10, kept=6)], [peer])
    values = [one.value for one in found if isinstance(one, Figure)]
    assert values == pytest.approx([3, 16 / 3 / 2, 1, 8 / 3 / 2])
