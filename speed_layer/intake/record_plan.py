"""The plan by which Spark computes all of the records of a source in one pass, whatever the number of metrics."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from hourline_core.compute.projection import Projection
from hourline_core.compute.validation import validate
from hourline_core.model import Source
from hourline_core.model.branches import Branches
from speed_layer.intake.deduplication import with_id


@dataclass(frozen=True)
class RecordPlan:
    """Decodes, validates and identifies the records of ``source``, and evaluates what its metrics need of them."""

    source: Source
    event_time_type: str
    branches: Branches | None
    projection: Projection

    def apply(self, records: DataFrame) -> DataFrame:
        """The events and records that ``validate`` gives for ``records`` (as of ``read_topics``), with ID and the
        columns of ``projection``.
        """
        validated = validate(records, self.source, self.event_time_type, self.branches)
        return self.projection.add_to(with_id(validated, self.source))
