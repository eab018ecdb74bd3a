"""The plan by which Spark computes all of the records of a source in one pass, whatever the number of metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.lookup_columns import NativeLookup, Pinned, native_lookups, with_lookups
from hourline_core.compute.projection import Projection
from hourline_core.compute.validation import validate
from hourline_core.model import Source
from hourline_core.model.branches import Branches
from hourline_core.model.scratch_columns import HEADERS, HEADERS_TEXT
from speed_layer.intake.deduplication import with_id
from speed_layer.intake.native_records import native_expressions
from speed_layer.kafka.read_topics import as_records


@dataclass(frozen=True)
class RecordPlan:
    """Decodes, validates and identifies the records of ``source``, and evaluates what its metrics need of them."""

    source: Source
    branches: Branches | None
    projection: Projection

    @cached_property
    def native(self) -> Mapping[str, str] | None:
        """The expressions that the tasks evaluate, as ``native_expressions`` gives them. None: Spark evaluates them."""
        return native_expressions(self.source, self.branches, self.projection)

    @property
    def native_lookups(self) -> Sequence[NativeLookup]:
        """The lookups whose columns the ``native`` expressions name."""
        return native_lookups(self.source, (self.native or {}).values()) or []

    def apply(self, kafka: DataFrame, arrived: Column | None = None) -> DataFrame:
        """The events and records that ``validate`` gives for the records ``kafka`` (as of ``read_topics``), with ID and
        the columns of ``projection``. They arrive when Spark plans to read them, or at ``arrived``.

        If the plan is ``native``: ``kafka`` itself, which the tasks evaluate, with the headers as in HEADERS_TEXT. If
        the source has lookups, and Spark evaluates it: without ID and those columns, which ``complete`` adds.
        """
        if self.native is not None:
            return kafka.withColumn("headers", F.to_json("headers"))
        records = as_records(kafka, arrived)
        return self.evaluate(validate(records, self.source, self.branches, keep=[HEADERS_TEXT]))

    def evaluate(self, validated: DataFrame) -> DataFrame:
        """The same for events that are ``validated``, where Spark evaluates the expressions."""
        return validated if self.source.lookups else self._evaluate(validated)

    def complete(self, applied: DataFrame, pinned: Pinned) -> DataFrame:
        """What ``apply`` has given, with the columns that depend on lookups. A stream lives on while their versions
        change, so this is planned in each micro-batch.
        """
        if self.native is not None or not self.source.lookups:
            return applied
        return self._evaluate(with_lookups(applied, self.source, pinned)).drop(*self.source.lookups)

    def _evaluate(self, validated: DataFrame) -> DataFrame:
        return self.projection.add_to(with_id(validated, self.source)).drop(HEADERS)
