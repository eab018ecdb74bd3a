"""What is computed once for all tests of a source: its records as Spark evaluates them, and the recompute of each
beginning of them. Each case is made of these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from batch_layer.prefixes import compute_prefixes
from hourline.metric_tests.cases import Case
from hourline.metric_tests.merged_tables import Final, MergedTables
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.model import Project, Source
from hourline_core.model.hours import wall_clock
from hourline_core.model.loaded_tests import LoadedTest
from hourline_core.storage.new_files import NewFile
from speed_layer.rehearsal import Positions, Rehearsal


@dataclass(frozen=True)
class _Prepared:
    """What is known of the records of one test."""

    positions: Positions
    hours: Sequence[frozenset[datetime]]
    """By number of records, the hours (UTC) of the events among the first ones."""


class PreparedSource:
    """The tests of ``source``. ``project`` has a workspace of their own, and the metrics that they need.

    Raises PySparkException when Spark fails.
    """

    def __init__(
        self, spark: SparkSession, project: Project, source: Source, tests: Mapping[LoadedTest, datetime]
    ) -> None:
        """``tests``: each with the time at which its records arrive (UTC)."""
        rehearsal = Rehearsal(spark, project, source, wall_clock)
        self._metrics = project.metrics_of(source.name)
        plans = [plan_aggregation(spark, source, metric) for metric in self._metrics]
        self._merged = MergedTables(project, source, plans)
        self._tests: dict[str, _Prepared] = {}
        files: list[NewFile] = []
        for test, arrived in tests.items():
            positions = rehearsal.positions(rehearsal.evaluate(test.declared.records, test.name, arrived))
            hours = [frozenset[datetime]()]
            for read in positions.each:
                files += read.part.events
                hours.append(hours[-1] | read.part.topics[test.name].hours.keys())
            self._tests[test.name] = _Prepared(positions, hours)
        archive = rehearsal.tables.events
        if files:
            rehearsal.tables.append_files(archive, files, 1)
        topics = {test.name: len(test.declared.records) for test in tests}
        self._prefixes = compute_prefixes(spark, source, self._metrics, archive, topics, rehearsal.reader.pin_lookups())

    def rows(self, test: LoadedTest, case: Case) -> dict[str, pa.Table]:
        """The rows of each metric of ``test`` once its records were read and recomputed as ``case`` says."""
        prepared = self._tests[test.name]
        reads = [
            replace(prepared.positions.read(first, end), sequence=sequence)
            for sequence, (first, end) in enumerate(pairwise((0, *case.ends)), start=1)
        ]
        after: dict[datetime, int] = {}
        """By covered hour, the number of records that were read before its last recompute."""
        for recompute in case.recomputes:
            after |= dict.fromkeys(recompute.chosen(prepared.hours[recompute.after]), recompute.after)
        sequences = dict(zip(case.ends, (read.sequence for read in reads), strict=True))
        cutoffs = {hour: sequences[records] for hour, records in after.items()}
        final = {}
        if case.recomputes:
            for metric in self._metrics:
                final[metric.name] = Final(self._recomputed(test, metric.name, after), cutoffs)
        return self._merged.rows(reads, final, test.metrics)

    def _recomputed(self, test: LoadedTest, metric: str, after: Mapping[datetime, int]) -> pa.Table:
        """The tiles of the hours of ``after``, each as recomputed after that number of records."""
        tiles = self._prefixes[metric][test.name]
        kept = []
        for records in set(after.values()):
            of_prefix = tiles[records - 1]
            hours = [hour for hour, number in after.items() if number == records]
            kept.append(of_prefix.filter(pc.is_in(of_prefix["hour"], pa.array(hours, of_prefix["hour"].type))))
        return pa.concat_tables([tiles[0].slice(0, 0), *kept])
