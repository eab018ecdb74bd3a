"""The plan by which Spark computes all of the records of a source in one pass, whatever the number of metrics."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from hourline_core.compute.projection import Projection
from hourline_core.compute.validation import validate
from hourline_core.model import Source
from hourline_core.model.branches import Branches
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    UNEXPLAINED,
    VALUE,
)
from speed_layer.deduplication import with_id_hash

_RECORD = [KEY, VALUE, HEADERS, RECORD_TIMESTAMP, RECORD_TIMESTAMP_TYPE, TOPIC, PARTITION, OFFSET, ARRIVED]


@dataclass(frozen=True)
class RecordPlan:
    """Decodes, validates and identifies the records of ``source``, and evaluates what its metrics need of them."""

    spark: SparkSession
    source: Source
    event_time_type: str
    branches: Branches | None
    projection: Projection

    def apply(self, records: DataFrame) -> DataFrame:
        """The events and records that ``validate`` gives for ``records`` (as of ``read_topics``), with ID_HASH and the
        columns of ``projection``. REASON may be UNEXPLAINED.
        """
        return self.projection.add_to(with_id_hash(self._validate(records), self.source))

    def explain_rejections(self, rows: pa.Table) -> pa.Table:
        """``rows``, what ``apply`` gave, with the words of each REASON.

        A format's words for what it cannot decode cost more than all else. So they are found in a second pass, over
        these records alone.
        """
        unexplained = pc.fill_null(pc.equal(rows[REASON], UNEXPLAINED), False)
        if not pc.any(unexplained).as_py():
            return rows
        records = self.spark.createDataFrame(rows.filter(unexplained).select(_RECORD))
        explained = self._validate(records, explain=True).select(TOPIC, PARTITION, OFFSET, REASON).toArrow()
        words = {tuple(address): reason for *address, reason in zip(*explained.to_pydict().values(), strict=True)}
        addresses = rows.filter(unexplained).select([TOPIC, PARTITION, OFFSET]).to_pydict()
        found = [words[address] for address in zip(*addresses.values(), strict=True)]
        reasons = pc.replace_with_mask(rows[REASON].combine_chunks(), unexplained.combine_chunks(), pa.array(found))
        return rows.set_column(rows.column_names.index(REASON), REASON, reasons)

    def _validate(self, records: DataFrame, *, explain: bool = False) -> DataFrame:
        return validate(records, self.source, self.event_time_type, self.branches, explain=explain)
