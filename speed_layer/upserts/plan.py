"""Plans an upsert: what tasks read of the archive of the table, and which version replaces which."""

from dataclasses import dataclass
from datetime import timedelta

from hourline_core.model import Project, Source
from speed_layer.derived.inputs import Input
from speed_layer.tables.plan import TablePlan, plan_table


@dataclass(frozen=True)
class UpsertPlan(TablePlan):
    """The newest versions of the rows of a table."""

    version: str
    """The field with the version."""
    within: timedelta


def plan_upsert(project: Project, source: Source, table: Input) -> UpsertPlan:
    """The plan of ``source``, an upsert of ``table``. Raises as ``plan_table``."""
    assert source.upsert, "it is an upsert"
    upsert = source.upsert
    return UpsertPlan(**vars(plan_table(project, source, upsert, table)), version=upsert.version, within=upsert.within)
