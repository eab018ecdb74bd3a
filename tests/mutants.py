"""`make mutants`: breaks each rule of the protocol in the product's own code, one at a time, and shows that some test
turns red.

    python tests/mutants.py            all of them
    python tests/mutants.py restore    those whose name contains a word

Each is done in a copy of the checkout. It counts as red when an assertion of a test has failed, or the product has
raised an error of its own. A mutant that no test notices is a failure of this run. So is a broken mutant, which raises
anything else, or whose line is no longer there: such code is red whatever the tests are worth.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).parents[1]
MISTAKES = (
    "AttributeError",
    "ImportError",
    "IndentationError",
    "ModuleNotFoundError",
    "NameError",
    "SyntaxError",
    "TypeError",
    "UnboundLocalError",
)
COPIED = (
    "batch_layer",
    "dags",
    "examples",
    "hourline",
    "hourline_core",
    "infra",
    "serving_layer",
    "speed_layer",
    "tests",
    "pyproject.toml",
)


@dataclass(frozen=True)
class Mutant:
    """One rule broken: in ``file``, each (old, new); ``tests`` are what ought to notice, as arguments of pytest."""

    rule: str
    file: str
    changes: tuple[tuple[str, str], ...]
    tests: str = "tests/protocol/test_protocol.py"


MUTANTS = [
    Mutant(
        "the slowest live partition holds the clock",
        "hourline_core/ledger/source_clock.py",
        (("min(shown.values(), default=None)", "max(shown.values(), default=None)"),),
        "tests/unit/ledger/test_source_clock.py",
    ),
    Mutant(
        "three further records confirm a leap",
        "hourline_core/ledger/source_clock.py",
        (("if time > clock + _LEAP:\n", "if False:\n"),),
        "tests/unit/ledger/test_source_clock.py",
    ),
    Mutant(
        "a stream that is behind is not silent",
        "speed_layer/silence.py",
        (("if end > max(readings", "if 0 > max(readings"),),
        "tests/protocol/test_silence.py",
    ),
    Mutant(
        "a cutoff is never beyond progress",
        "hourline_core/ledger/snapshot.py",
        (
            (
                "SourceProgress(known.table.version(), known.sequence, known.has_gaps)",
                "SourceProgress(known.table.version(), known.sequence + 1, known.has_gaps)",
            ),
        ),
    ),
    Mutant(
        "coverage is committed after final",
        "batch_layer/publication.py",
        (
            (
                '        commits.overwrite(table, rows, _among("hour", hours), {"cutoff": cutoff, "hours": len(hours)})\n',
                "        self.later = [*getattr(self, 'later', []), (table, rows, hours)]\n",
            ),
            ("aggregation.source.name, table.version()\n", "aggregation.source.name, table.version() + 1\n"),
            (
                "        self._commit_coverage(fresh, versions_of([drift, quality]), cost or {})\n",
                "        self._commit_coverage(fresh, versions_of([drift, quality]), cost or {})\n"
                "        for table, rows, hours in self.later:\n"
                "            commits.overwrite(table, rows, _among('hour', hours), {})\n",
            ),
        ),
        "tests/protocol/test_failpoints.py",
    ),
    Mutant(
        "progress is a micro-batch's last commit",
        "speed_layer/micro_batch.py",
        (
            ("        finished = self._finish(read, fresh, accepted, sequence)\n", ""),
            (
                "        with ThreadPoolExecutor(",
                "        finished = self._finish(read, fresh, accepted, sequence)\n        with ThreadPoolExecutor(",
            ),
        ),
        "tests/stack/test_failpoints.py -k commit_of_a_micro_batch",
    ),
    Mutant(
        "no micro-batch is committed after one that failed",
        "speed_layer/foreach_batch.py",
        (("        if self.error:\n            raise self.error\n", "        return\n"),),
        "tests/unit/speed_layer/test_foreach_batch.py",
    ),
    Mutant(
        "what was read is committed before silence is looked for",
        "speed_layer/foreach_batch.py",
        (("if self._all_committed() and not", "if not"),),
        "tests/unit/speed_layer/test_foreach_batch.py",
    ),
    Mutant(
        "offsets that were read are refused",
        "speed_layer/offset_order.py",
        (("            if read[f", "            if 0 > read[f"),),
        "tests/unit/speed_layer/test_foreach_batch.py",
    ),
    Mutant(
        "a stop does not wait for what Spark reads",
        "speed_layer/foreach_batch.py",
        (("self._running.acquire(timeout=seconds):\n", "self._running.acquire(timeout=seconds + 30):\n"),),
        "tests/unit/speed_layer/test_foreach_batch.py",
    ),
    Mutant(
        "a stop waits for the commit that runs",
        "speed_layer/foreach_batch.py",
        (
            (
                "        self._committer.shutdown()\n        return ended\n",
                "        self._committer.shutdown(wait=False)\n        return ended\n",
            ),
        ),
        "tests/unit/speed_layer/test_foreach_batch.py",
    ),
    Mutant(
        "a deleted lock is taken again",
        "hourline_core/runtime/file_lock.py",
        (("        if _is_at(self.path, self.fd):\n", "        if True:\n"),),
        "tests/unit/runtime/test_file_lock.py",
    ),
    Mutant(
        "who waits for a lock is not let in by its deletion",
        "hourline_core/runtime/file_lock.py",
        (("            if _is_at(path, fd):\n", "            if True:\n"),),
        "tests/unit/runtime/test_file_lock.py",
    ),
    Mutant(
        "one of two starts at once starts",
        "hourline_core/runtime/background.py",
        (('hold_lock(starting, "", waiting=lambda: None)', "suppress()"),),
        "tests/unit/runtime/test_background.py",
    ),
    Mutant(
        "the first cause is told, not the last",
        "hourline_core/causes.py",
        (("            name, words = causes[-1]\n", "            name, words = causes[0]\n"),),
        "tests/unit/runtime/test_faults.py",
    ),
    Mutant(
        "what needs a person is not tried again",
        "hourline/exit_status.py",
        (("SourceError: EX_DATAERR", "SourceError: EX_TEMPFAIL"),),
        "tests/surface/test_faults.py",
    ),
    Mutant(
        "half of a surrogate pair is no character",
        "hourline_core/formats/json_format.py",
        (("is_lone = may_be_lone & ", "is_lone = F.lit(False) & "),),
        "tests/stack/test_bad_records.py",
    ),
    Mutant(
        "an offset without a record is read, too",
        "speed_layer/offset_order.py",
        (
            ("replace(known, last=max(known.last, end - 1))", "known"),
            ("            elif end > self", "            elif 0 > self"),
        ),
        "tests/unit/speed_layer/test_offset_order.py",
    ),
    Mutant(
        "a partition is known before it has a record",
        "speed_layer/offset_order.py",
        (("self._next.get((topic_id, number), -1)", "self._next.get((topic_id, number), 0)"),),
        "tests/unit/speed_layer/test_offset_order.py",
    ),
    Mutant(
        "what Kafka has deleted before it was read is missed at a start",
        "hourline_core/ledger/read_offsets.py",
        (("return (left[0][0], left[-1][1]) if left else None", "return None"),),
        "tests/unit/speed_layer/test_offset_order.py",
    ),
    Mutant(
        "a start passes what Kafka has deleted since it was looked for",
        "speed_layer/kafka_stream.py",
        (("in deleted_ranges(reading, available).items():", "in ():"),),
        "tests/unit/speed_layer/test_starting_offsets.py",
    ),
    Mutant(
        "what Kafka has deleted is looked for when a stream has failed",
        "speed_layer/run.py",
        (("if stop.is_set() or not any(", "if not stop.is_set() or not any("),),
        "tests/stack/test_gaps.py -k 'while'",
    ),
    Mutant(
        "what is lost stays on record",
        "speed_layer/reset/source_reset.py",
        (("                self.gaps.get(topic, ()),\n", "                (),\n"),),
        "tests/stack/test_gaps.py -k 'while_stopped'",
    ),
    Mutant(
        "the hours of a gap are incomplete",
        "hourline_core/sql/hour_states.py",
        (("'incomplete', counted)", "counted, counted)"),),
        "tests/protocol/test_gaps.py",
    ),
    Mutant(
        "only a confirmation makes them complete",
        "hourline_core/sql/hour_states.py",
        (("WHERE g.confirmed IS NULL", "WHERE true"),),
        "tests/protocol/test_gaps.py",
    ),
    Mutant(
        "what an open transaction holds back is counted",
        "hourline_core/runtime/topics.py",
        (
            (
                "OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED",
                "OffsetSpec.latest(), IsolationLevel.READ_COMMITTED",
            ),
        ),
        "tests/stack/test_transactions.py -k lag",
    ),
    Mutant(
        "a topic that was made anew is noticed before a commit",
        "speed_layer/foreach_batch.py",
        (("                self._continuity.confirm(read.last_records, read.partitions)\n", "                pass\n"),),
        "tests/unit/speed_layer/test_foreach_batch.py",
    ),
    Mutant(
        "a topic's id is that which was read",
        "speed_layer/continuity.py",
        (("if before is not None and now != before:", "if before is not None and now is None:"),),
        "tests/unit/speed_layer/test_continuity.py",
    ),
    Mutant(
        "a start compares the last records",
        "speed_layer/continuity.py",
        (("        self._compare(self._of_known(self._epochs))\n", ""),),
        "tests/unit/speed_layer/test_continuity.py",
    ),
    Mutant(
        "a new leader's log is compared before a commit",
        "speed_layer/continuity.py",
        (("            self._compare_cut_off(here)\n", ""),),
        "tests/unit/speed_layer/test_continuity.py",
    ),
    Mutant(
        "what was read of the old leader is compared, too",
        "speed_layer/continuity.py",
        (("        self._compare({of: record for of, record in records.items() if record and of in changed})\n", ""),),
        "tests/unit/speed_layer/test_continuity.py",
    ),
    Mutant(
        "retention and compaction are no loss",
        "speed_layer/continuity.py",
        (("            if read.offset >= kafka.end(of):\n", "            if True:\n"),),
        "tests/unit/speed_layer/test_continuity.py",
    ),
    Mutant(
        "another cluster is noticed",
        "speed_layer/continuity.py",
        (("if known and self.cluster and known != self.cluster:", "if False:"),),
        "tests/unit/speed_layer/test_continuity.py",
    ),
    Mutant(
        "the last record is that of the highest offset",
        "speed_layer/record_rows.py",
        (("np.lexsort((offsets, partitions, topics))", "np.lexsort((-offsets, partitions, topics))"),),
        "tests/unit/speed_layer/test_last_records.py",
    ),
    Mutant(
        "a topic that was made anew keeps a row of its own in old progress",
        "speed_layer/progress_compaction.py",
        (("        and not _has_other_topic(one, later)\n", ""),),
        "tests/unit/speed_layer/test_last_records.py",
    ),
    Mutant(
        "a log that was cut off is not read at known offsets",
        "speed_layer/reset/positions.py",
        (("    if chosen is None or chosen <= last.offset:\n", "    if False:\n"),),
        "tests/stack/test_replaced_kafka.py -k cut_off",
    ),
    Mutant(
        "only the element behind the text says that the text is one object",
        "hourline_core/formats/json_format.py",
        ((" & (elements[1][_END] == 1)", ""),),
        "tests/stack/test_bad_records.py",
    ),
    Mutant(
        "provisional rows are pruned only up to a published cutoff",
        "speed_layer/maintenance.py",
        (("(sequence <= {cutoff} AND hour IN", "(sequence <= {cutoff + 1} AND hour IN"),),
        "tests/protocol/test_speed_maintenance.py -k pruned",
    ),
    Mutant(
        "a sequence is never used again",
        "speed_layer/source_tables.py",
        (("    return max(finished, *(sequence for _, sequence in written)) + 1", "    return finished + 1"),),
    ),
    Mutant(
        "what was left unpublished in final is restored away",
        "batch_layer/publication.py",
        (("        if table.version() != published:", "        if False:"),),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "final is read at the version that coverage pins",
        "hourline_core/sql/tables.py",
        (
            (
                "layout.final(source, tables.metric), tables.final, files)",
                '(at := layout.final(source, tables.metric)), __import__("deltalake").DeltaTable(at).version(), files)',
            ),
        ),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "coverage is read last",
        "hourline_core/ledger/snapshot.py",
        (
            ("        covering = open_coverage(project, opened, publication)\n", ""),
            (
                "        progresses = {\n",
                "        covering = open_coverage(project, opened, publication)\n        progresses = {\n",
            ),
        ),
        "tests/protocol/test_snapshot.py",
    ),
    Mutant(
        "progress is read first",
        "hourline_core/ledger/snapshot.py",
        (
            (
                "        coverage = Coverage.at(covering)\n",
                "        coverage = Coverage.at(covering)\n"
                "        for known in progresses.values():\n"
                "            update(known.table)\n"
                "        progress = {n: SourceProgress(p.table.version(), p.sequence) for n, p in progresses.items()}\n",
            ),
        ),
        "tests/protocol/test_snapshot.py",
    ),
    Mutant(
        "a read that finds a cutoff beyond its progress begins again",
        "hourline_core/ledger/snapshot.py",
        (("        if not overtaken and not beyond:", "        if not overtaken or not beyond:"),),
        "tests/protocol/test_snapshot.py",
    ),
    Mutant(
        "a start clears what an unfinished micro-batch left",
        "speed_layer/source_tables.py",
        (("        if sequence > finished:\n", "        if False:\n"),),
        "tests/protocol/test_two_speed_layers.py",
    ),
    Mutant(
        "a start fences who wrote before",
        "speed_layer/source_tables.py",
        (("        commits.fence(table)\n", ""),),
        "tests/protocol/test_two_speed_layers.py",
    ),
    Mutant(
        "a commit is made on the version expected, or not at all",
        "hourline_core/storage/commits.py",
        (("        max_commit_retries=0,", "        max_commit_retries=10,"),),
        "tests/protocol/test_two_speed_layers.py",
    ),
    Mutant(
        "a publication begins before its cutoff is taken",
        "batch_layer/publication.py",
        (
            (
                "        self._refuse_overtaken()",
                "        self._coverage = open_table(self._layout.coverage, self._layout.storage_options)\n"
                "        self._covered = Coverage.at(self._coverage)",
            ),
        ),
        "tests/protocol/test_zombies.py",
    ),
    Mutant(
        "a publication that was overtaken touches nothing",
        "batch_layer/publication.py",
        (("        self._refuse_overtaken()", ""),),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "a publication keeps what coverage says of others",
        "hourline_core/ledger/coverage.py",
        (("pa.concat_tables([carried, whole", "pa.concat_tables([whole"),),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "what was counted up to the cutoff is not counted again",
        "hourline_core/sql/merge.py",
        (("t.sequence > coalesce(h.cutoff, -1)", "t.sequence >= coalesce(h.cutoff, -1)"),),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "hours from before a metric's birth are missing, not partial",
        "speed_layer/source_tables.py",
        (("known.get(aggregation.name, following)", "known.get(aggregation.name, 1)"),),
        "tests/protocol/test_changed_metrics.py",
    ),
    Mutant(
        "a changed declaration takes over when all hours are covered",
        "hourline_core/ledger/coverage.py",
        (("        return cutoff is not None and cutoff >= complete_from - 1", "        return True"),),
        "tests/protocol/test_changed_metrics.py",
    ),
    Mutant(
        "the declaration that is served is written on",
        "speed_layer/maintenance.py",
        (
            (
                "        if covered.is_promoted(source_tables.complete_from[newer.name]):\n",
                "        if True:\n",
            ),
        ),
        "tests/protocol/test_changed_metrics.py",
    ),
    Mutant(
        "compaction keeps every row once",
        "hourline_core/storage/compaction.py",
        (("(pc.field(by) >= lowest)", "(pc.field(by) > lowest)"),),
        "tests/protocol/test_speed_maintenance.py -k pruned",
    ),
    Mutant(
        "files that a reader may still be at are kept",
        "hourline_core/storage/retention.py",
        (("KEPT_HOURS = 2\n", "KEPT_HOURS = 0\n"),),
        "tests/protocol/test_speed_maintenance.py -k goes_on_reading",
    ),
    Mutant(
        "maintenance spares the files of every version that a query may still be at",
        "batch_layer/maintain.py",
        (("commits[: recent + 1]", "commits[:1]"),),
        "tests/protocol/test_maintain.py -k goes_on",
    ),
    Mutant(
        "what an unfinished publication has left is deleted before maintenance commits to coverage",
        "batch_layer/maintain.py",
        (("            drop_unpublished(kept, coverage)\n", ""),),
        "tests/protocol/test_maintain.py -k killed",
    ),
    Mutant(
        "of duplicates within the horizon the first counts",
        "speed_layer/deduplication.py",
        (("        repeated[order] = again\n", ""),),
        "tests/unit/speed_layer/test_deduplication.py",
    ),
    Mutant(
        "of duplicates in one record the first place counts",
        "speed_layer/deduplication.py",
        (
            (
                "np.lexsort((*reversed(address), topics, hashes))",
                "np.lexsort((*reversed(address[:2]), topics, hashes))",
            ),
        ),
        "tests/unit/speed_layer/test_deduplication.py",
    ),
    Mutant(
        "of a record that is archived in part, only the rejected places are validated again",
        "speed_layer/reprocessing.py",
        (
            (
                "tuple(column[row].as_py() for column in addresses.columns) not in self._partly_rejected",
                "False",
            ),
        ),
        "tests/unit/speed_layer/test_reprocessing.py",
    ),
    Mutant(
        "a record that was empty is not counted again when it has events",
        "speed_layer/accounting.py",
        (("number_of_records(fresh) - known.records", "number_of_records(fresh)"),),
        "tests/unit/speed_layer/test_reprocessing.py",
    ),
    Mutant(
        "drift of a publication that never was is not kept",
        "hourline_core/ledger/unpublished.py",
        (
            ('        commits.delete(kept, f"publication >= {publication}"', '        len(f"{publication}"'),
            (', {"unpublished": publication})', ")"),
        ),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "a reset metric's tiles do not count from then on",
        "hourline_core/ledger/progress_rows.py",
        (("replace(written, complete_from=sequence + 1)", "written"),),
        "tests/protocol/test_protocol_resets.py",
    ),
    Mutant(
        "an hour that did not pass its audit is not published",
        "batch_layer/publication.py",
        (("if hour not in self.blocked]", "]"),),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "the staged rows of a blocked hour stay",
        "batch_layer/publication.py",
        (("staged=staged.version,", "staged=1,"),),
        "tests/protocol/test_publications.py",
    ),
    Mutant(
        "what is always null has nothing to evaluate",
        "batch_layer/audit/validator.py",
        (("            if rows == 0 and hour in of_check:", "            if False:"),),
        "tests/unit/batch_layer/test_expectations.py",
    ),
    Mutant(
        "an exception in an expectation is a failure",
        "batch_layer/audit/findings.py",
        (('        if one.get("raised_exception"):', "        if False:"),),
        "tests/unit/batch_layer/test_expectations.py",
    ),
    Mutant(
        "an hour in which nothing came is an hour",
        "hourline_core/sql/progress.py",
        (("generate_series(hour, greatest(hour, last), {hour})", "generate_series(hour, hour, {hour})"),),
        "tests/protocol/test_empty_hours.py",
    ),
    Mutant(
        "a job counts the events of its hours anew",
        "batch_layer/plan.py",
        (("replace(item, events=now.events) for item, now", "item for item, now"),),
        "tests/protocol/test_empty_hours.py",
    ),
    Mutant(
        "the archive is looked at for hours without events",
        "batch_layer/audit/facts.py",
        (("ArchivedCounts(events, duplicates, ", "ArchivedCounts({}, {}, "),),
        "tests/protocol/test_empty_hours.py",
    ),
    Mutant(
        "what Spark has read is compared with the archive",
        "batch_layer/audit/built_in_expectations.py",
        (('        _equal("events read", "events to read"),\n', ""),),
        "tests/protocol/test_empty_hours.py",
    ),
    Mutant(
        "an event that does not count is in no tile",
        "batch_layer/totals.py",
        (('    return F.col(COUNTS) & F.expr(metric.where or "true")', '    return F.expr(metric.where or "true")'),),
        "tests/stack/test_totals.py",
    ),
    Mutant(
        "an event that a metric leaves out is in no tile",
        "batch_layer/totals.py",
        (('    return F.col(COUNTS) & F.expr(metric.where or "true")', "    return F.col(COUNTS)"),),
        "tests/stack/test_totals.py",
    ),
    Mutant(
        "an event that does not count is not in the totals",
        "batch_layer/totals.py",
        (
            (
                'return f"{COUNTS} AND ({metric.where})" if metric.where else COUNTS',
                'return metric.where or "true"',
            ),
        ),
        "tests/stack/test_totals.py",
    ),
    Mutant(
        "an event that a metric leaves out is not in the totals",
        "batch_layer/totals.py",
        (('return f"{COUNTS} AND ({metric.where})" if metric.where else COUNTS', "return COUNTS"),),
        "tests/stack/test_totals.py",
    ),
    Mutant(
        "a required field is never null where Spark reads it",
        "batch_layer/audit/built_in_expectations.py",
        (('        *(_none(f"events read without {name}") for name in totals.without),\n', ""),),
        "tests/stack/test_audit.py -k fault",
    ),
    Mutant(
        "without an id and a condition, all events count",
        "batch_layer/audit/built_in_expectations.py",
        (("_at_least if source.id or source.where else _equal", "_at_least"),),
        "tests/unit/batch_layer/test_built_in_expectations.py",
    ),
    Mutant(
        "a relation has all views beside it",
        "serving_layer/connection.py",
        (("        self._attach_all()\n        return self.answer(query)", "        return self.answer(query)"),),
        "tests/protocol/test_attached_parts.py",
    ),
    Mutant(
        "a name that is no view attaches all",
        "hourline_core/sql/parts.py",
        ((" or named.tables - named.expressions - self._parts.keys()", ""),),
        "tests/protocol/test_attached_parts.py",
    ),
    Mutant(
        "the commits of tables whose log DuckDB reads are read again",
        "hourline_core/storage/opening.py",
        (("table.metadata().name in BY_HANDLE and local_files(table)", "local_files(table)"),),
        "tests/protocol/test_damage.py -k keeps_its_time",
    ),
    Mutant(
        "the number of events in an hour without events is 0",
        "batch_layer/audit/volume.py",
        (("while events.get(hour - length * HOUR) == 0", "while events.get(hour - length * HOUR) is None"),),
        "tests/unit/batch_layer/test_volume.py",
    ),
]


class Verdict(NamedTuple):
    word: Literal["red", "ALIVE", "BROKEN"]
    what: str
    """Which test turned red, or what is wrong with the mutant."""


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.rule for word in words)]
    red, broken = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for mutant in chosen:
            began = time.monotonic()
            verdict = noticed(mutant, Path(folder) / "copy")
            print(f"{verdict.word:<6} {mutant.rule:<62} {time.monotonic() - began:4.0f} s  {verdict.what}", flush=True)  # noqa: T201
            red += verdict.word == "red"
            broken += [(mutant.rule, verdict.what)] if verdict.word == "BROKEN" else []
    print(f"{red} of {len(chosen)} broken rules turned a test red")  # noqa: T201
    for rule, what in broken:
        print(f"the mutant '{rule}' is broken itself and proves nothing: {what}")  # noqa: T201
    return red < len(chosen) or not chosen


def noticed(mutant: Mutant, copy: Path) -> Verdict:
    """What the tests say of a mutant, in a copy of the checkout."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".hourline"))
        else:
            shutil.copy(source, copy / name)
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    for old, new in mutant.changes:
        if text.count(old) != 1:
            return Verdict(
                "BROKEN", f"{mutant.file} has {text.count(old)} times, and ought to have once: {old.strip()}"
            )
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    reasons = copy / "reasons"
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "HYPOTHESIS_PROFILE": "mutants",
        "PROTOCOL_EXAMPLES": "100",
        "RED_REASONS": str(reasons),
    }
    command = f"{sys.executable} -m pytest -p no:cacheprovider -p tests.support.red_reasons -q -x {mutant.tests}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return Verdict("ALIVE", "")
    failures = (
        [json.loads(line) for line in reasons.read_text(encoding="utf-8").splitlines()] if reasons.exists() else []
    )
    if broken := [f"{failure['broken']} ({failure['test']})" for failure in failures if failure["broken"]]:
        return Verdict("BROKEN", broken[0])
    if mistake := mistake_told(done.stdout, mutant.file):
        return Verdict("BROKEN", f"{mistake} (in a process that a test has started)")
    if done.returncode != 1 or not failures:
        return Verdict("BROKEN", f"the tests did not run: {(done.stdout + done.stderr)[-2000:]}")
    return Verdict("red", failures[0]["test"])


def mistake_told(output: str, file: str) -> str:
    """The mistake in ``file`` by which some other process has ended, by what that has said; empty if there is none: a
    test sees its end alone.
    """
    frame = rf'File "[^"]*{re.escape(file)}", line \d+(?:, in .*)?\n'
    found = re.search(rf"{frame}(?:(?:E  )? {{3,}}.*\n)*(?:E +)?((?:{'|'.join(MISTAKES)})\b.*)", output)
    return f"{found[1]} in {file}" if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
