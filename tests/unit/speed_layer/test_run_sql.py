"""What DuckDB gives of large rows comes in tables that are small enough for Arrow."""

from hourline_core.compute.worker_database import connect
from speed_layer.derived.run_sql import read_sql


def test_rows_come_in_order_in_tables_of_a_bounded_size() -> None:
    """Texts of 100 kB: at once, 20,000 of them would be 2 GB, which Arrow refuses."""
    numbers, tables = [], 0
    for table in read_sql(connect(), "SELECT range AS n, repeat('x', 100_000) AS text FROM range(1500) ORDER BY n"):
        assert table.nbytes < 100_000_000
        assert table["text"].num_chunks == 1
        numbers += table["n"].to_pylist()
        tables += 1
    assert numbers == [*range(1500)]
    assert tables > 1
