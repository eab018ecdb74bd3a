"""A degraded connection: it answers exactly from what is whole, and refuses the rest by name."""

import pytest

import serving_layer
from hourline_core.errors import TableError, UsageError
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import METRICS, BareTables, expected
from tests.support.damage import HOURS, LOG_DAMAGE, OF_TOTALS, TABLES, VIEWS, added, answers, folder, last_commit


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("provisional")])
@pytest.mark.parametrize("damage", ["empty", "truncated"])
def test_a_degraded_connection_answers_every_metric_exactly_from_what_is_whole(
    damage: str, name: str, tables: BareTables
) -> None:
    LOG_DAMAGE[damage](last_commit(folder(tables, name)))
    with serving_layer.connect(tables.project, degraded=True) as connection:
        assert name in " ".join(connection.damage)
        for metric in METRICS:
            finished = connection.snapshot.progress["clicks"].sequence * 6
            assert finished == (12 if name == "progress/clicks" else 18)
            assert dict(connection.sql(f"SELECT hour, n FROM {metric}").fetchall()) == expected(
                metric, HOURS[:finished]
            )
        unreadable = [view for view in VIEWS if view in connection.snapshot.unreadable]
        assert bool(unreadable) == (name.partition("/")[0] in ("events", "rejected", "drift", "quality", "staged"))
        for view in VIEWS:
            if view in unreadable:
                with pytest.raises(TableError, match=f"'{view}' cannot be answered: .*{name}"):
                    connection.sql(f"FROM {view}")
            else:
                connection.sql(f"FROM {view}").fetchall()


def test_a_degraded_connection_answers_from_the_publication_before_a_lost_file(tables: BareTables) -> None:
    before, newest = (set(added(tables, f"final/{OF_TOTALS}", version)) for version in (1, 2))
    (newest - before).pop().unlink()
    with serving_layer.connect(tables.project, degraded=True) as connection:
        assert connection.snapshot.publication == 1
        assert "is missing; `hourline reset totals`" in " ".join(connection.damage)
        assert dict(connection.sql("SELECT hour, n FROM totals").fetchall()) == expected("totals", HOURS[:18])


@pytest.mark.parametrize("kind", ["provisional", "final"])
def test_damage_in_one_metric_takes_no_answer_from_another(kind: str, tables: BareTables) -> None:
    for file in folder(tables, f"{kind}/{OF_TOTALS}").glob("*.parquet"):
        file.unlink()
    if kind == "final":  # before the first publication there is nothing final; but what it had published is pruned
        tables.start()
        maintain_source(tables.project, tables.source_tables)
    with serving_layer.connect(tables.project, degraded=True) as connection:
        assert dict(connection.sql("SELECT hour, n FROM odd").fetchall()) == expected("odd", HOURS[:18])
        assert OF_TOTALS in " ".join(connection.damage)
        with pytest.raises(TableError, match=f"'totals' cannot be answered: .*{kind}/{OF_TOTALS} is damaged"):
            connection.sql("SELECT sum(n) FROM totals")
        with pytest.raises(TableError, match="'totals' cannot be answered"):
            connection.sql('SELECT n FROM odd UNION ALL SELECT n FROM "Totals"')
        # What merely looks like its name takes nothing from it.
        assert connection.sql("SELECT max(totals.n), 'totals' FROM odd AS totals").fetchall()


def test_where_nothing_is_damaged_a_degraded_connection_is_as_any_other(tables: BareTables) -> None:
    assert answers(tables, degraded=True) == answers(tables)
    with pytest.raises(UsageError, match="got both --as-of and --degraded"):
        serving_layer.connect(tables.project, as_of="p1-clicks.2", degraded=True)
