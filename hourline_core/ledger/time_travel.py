"""The snapshot of an earlier time, from the tables as they are now.

Progress, events, rejected and quarantine are read at their newest versions, up to the sequence of that time. Their
rows stay, except for rejected records that were validated again after a reset. Those of a derived source that was made
anew are deleted, so it is left out.

Coverage is read at its version of that time, which pins final.

Provisional is read at the newest version that has all rows which counted then. That is the newest one of all, until a
pruning takes rows that a later publication put into final. The version before is kept for two hours. After that, the
hours that had events above their cutoff are `missing`. All others are final, as they were.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache

from deltalake import DeltaTable

from hourline_core.errors import TableError, UsageError, did_you_mean
from hourline_core.ledger.coverage import Coverage, open_coverage, read_coverage
from hourline_core.ledger.damage import Strict
from hourline_core.ledger.layout import DECLARATION, Layout
from hourline_core.ledger.metric_tables import MetricTables, as_covered
from hourline_core.ledger.open_progress import find_progress
from hourline_core.ledger.other_table_versions import other_table_versions
from hourline_core.ledger.progress import Progress, last_sequence
from hourline_core.ledger.progress_rows import WrittenMetric
from hourline_core.ledger.snapshot import Snapshot, SourceProgress, files_of
from hourline_core.ledger.token import AnswerToken
from hourline_core.model import Project, Source, declaration_hash, from_stored
from hourline_core.model.hours import parse_moment
from hourline_core.storage.data_files import damage_of, is_whole
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.seen_versions import seen_version


def snapshot_at(project: Project, token: AnswerToken) -> Snapshot:
    """The snapshot of ``token``, without the sources whose events were made anew since. Raises TableError, and
    UsageError if there was no such snapshot, or what it needs has been deleted since.
    """
    coverage = _coverage_at(project, token.publication)
    pruned = _Prunings(project, coverage)
    progress: dict[str, SourceProgress] = {}
    opened: dict[str, DeltaTable] = {}
    found: list[list[MetricTables]] = []
    read: list[DeltaTable] = []
    made_anew: dict[str, int] = {}
    for name, sequence in token.sequences.items():
        if name not in project.sources:
            raise UsageError(f"there is no source '{name}'{did_you_mean(name, project.sources)}")
        source = project.sources[name]
        table = open_table(Layout.of(project).progress(source), project.settings.storage_options)
        opened[name] = table
        known_progress = Progress(table)
        if sequence < known_progress.began_anew_at:
            made_anew[name] = sequence
            continue
        written = _find_written(known_progress, name, sequence)
        progress[name] = SourceProgress(table.version(), sequence, known_progress.has_gaps)
        for metric in project.metrics_of(name):
            declarations = [
                _tables_at(project, source, known, sequence, known_progress, pruned)
                for known in written
                if known.metric == metric.name
            ]
            found.append([of for of, _ in declarations])
            read += [table for _, table in declarations]
    for source_name, cutoff in coverage.highest_cutoffs().items():
        # A reader reads progress before coverage, and starts again if coverage went further.
        if source_name in project.sources.keys() - made_anew.keys() and cutoff > token.sequences.get(source_name, 0):
            raise UsageError(
                f"there never was an answer {token}: publication {token.publication} counts {source_name} "
                f"up to sequence {cutoff}"
            )
    metrics = as_covered(found, coverage)
    for tables in metrics:
        if tables.final is not None:
            final = _open_kept(
                Layout.of(project).final_of(tables.metric.name, tables.declaration), project, tables.final
            )
            if final is None:
                raise _gone(project, token.publication)
            read.append(final)
    with OpenTables(project.settings.storage_options) as newest:
        others = other_table_versions(project, opened, open_coverage(project, newest), newest, Strict())
    files = files_of([*opened.values(), *read])
    return Snapshot(progress, metrics, coverage.about(metrics), others, files=files, made_anew=made_anew)


def find_forgotten(snapshot: Snapshot) -> set[str]:
    """The metrics whose provisional rows of that time are no longer kept. Their hours with events above the cutoff
    are `missing`.
    """
    return {
        tables.metric.name
        for tables in snapshot.served
        if tables.complete_from > snapshot.progress[tables.source.name].sequence
    }


def token_of(project: Project, text: str, now: datetime) -> AnswerToken:
    """A token, or that of a time: ISO text, in UTC unless it has an offset. Raises TableError, and UsageError if it
    is neither, or a time after ``now``, whose answer could not be repeated.
    """
    moment = parse_moment(text)
    if moment is None:
        return AnswerToken.parse(text)
    if moment > now:
        raise UsageError(f"'{text}' lies in the future: it is {now:%Y-%m-%dT%H:%M:%SZ} now")
    return token_at(project, moment)


def moment_of(project: Project, token: AnswerToken) -> datetime | None:
    """When the last micro-batch of ``token`` was finished (UTC). It closes the hours that go by wall time, so that the
    answer does not change with the time at which it is repeated. None: there was none. Raises TableError.
    """
    layout, options = Layout.of(project), project.settings.storage_options
    finished = [
        row.finished
        for name, sequence in token.sequences.items()
        for row in Progress(open_table(layout.progress(project.sources[name]), options)).rows_of(sequence)
    ]
    return max(finished, default=None)


def published_at(project: Project, token: AnswerToken) -> datetime | None:
    """When the publication of ``token`` was committed (UTC). None: it has none. Raises TableError, and UsageError if
    it is no longer known.
    """
    if token.publication is None:
        return None
    commits = open_table(Layout.of(project).coverage, project.settings.storage_options).history()
    found = next((one["timestamp"] for one in commits if one["version"] == token.publication), None)
    if found is None:
        raise _gone(project, token.publication)
    return datetime.fromtimestamp(found / 1000, UTC)


def token_at(project: Project, moment: datetime) -> AnswerToken:
    """The token of an answer at ``moment`` (UTC). Raises TableError, and UsageError if nothing had been processed by
    then.
    """
    layout, options = Layout.of(project), project.settings.storage_options
    sequences: dict[str, int] = {}
    for source in project.sources.values():
        progress = find_progress(project, source)
        if progress and (sequence := progress.sequence_at(moment)) is not None:
            sequences[source.name] = sequence
        elif progress and progress.began_anew_at > 1:  # What it had read by then is not known any more.
            sequences[source.name] = progress.began_anew_at - 1
    if not sequences:
        raise UsageError(f"nothing had been processed by {moment:%Y-%m-%dT%H:%M:%SZ}: there is no answer of that time")
    publication: int | None = None
    if exists(layout.coverage, options):
        commits = open_table(layout.coverage, options).history()
        then = (commit["version"] for commit in commits if commit["timestamp"] <= moment.timestamp() * 1000)
        # Version 0 is the empty table, as it was created.
        publication = max(then, default=0) or None
        # The clocks of two machines may differ: what was published had been processed.
        for name, cutoff in _coverage_at(project, publication).highest_cutoffs().items():
            if name in project.sources:
                sequences[name] = max(cutoff, sequences.get(name, 0))
    return AnswerToken(publication, sequences)


def _coverage_at(project: Project, publication: int | None) -> Coverage:
    if publication is None:
        return Coverage.empty()
    uri = Layout.of(project).coverage
    newest = open_table(uri, project.settings.storage_options).version()
    if publication > newest:
        raise UsageError(f"there is no publication {publication} yet; the newest is {newest}")
    if _open_kept(uri, project, publication) is None:
        raise _gone(project, publication)
    return read_coverage(project, publication)


def _find_written(progress: Progress, source: str, sequence: int) -> tuple[WrittenMetric, ...]:
    """The metrics that the micro-batch wrote."""
    if sequence == 0:
        return ()
    if rows := progress.rows_of(sequence):
        return rows[0].metrics
    if sequence < progress.sequence:
        raise UsageError(f"the state of source '{source}' at sequence {sequence} is no longer kept, or never existed")
    raise UsageError(f"source '{source}' has no micro-batch {sequence}; the newest is {progress.sequence}")


def _tables_at(
    project: Project,
    source: Source,
    known: WrittenMetric,
    sequence: int,
    progress: Progress,
    prunings: "_Prunings",
) -> tuple[MetricTables, DeltaTable]:
    """The metric with its provisional table at a version that has all rows of that time."""
    metric, declaration = project.metrics[known.metric], known.declaration
    table = open_table(Layout.of(project).provisional_of(metric.name, declaration), project.settings.storage_options)
    current = declaration == declaration_hash(source, metric)
    stored = table.metadata().configuration[DECLARATION]
    declared = (source, metric) if current else from_stored(stored, source, metric.window)
    if _is_reset(known, sequence, progress):
        then = _at_sequence(project, table, sequence)
    else:
        then = _before_pruning(
            project, table, lambda version: prunings.keep(version, (metric.name, declaration), progress, sequence)
        )
    if then is None:
        # As if the metric had been declared since: what no recompute had counted is unknown.
        return MetricTables(*declared, table.version(), sequence + 1), table
    return MetricTables(*declared, then.version(), known.complete_from), then


def _is_reset(known: WrittenMetric, sequence: int, progress: Progress) -> bool:
    """Whether the metric has lost all its rows since ``sequence``. A reset raises ``complete_from``."""
    last = progress.last_row()
    now = {one.declaration: one.complete_from for one in (last.metrics if last else ()) if one.metric == known.metric}
    return (progress.metric_reset or 0) > sequence and now.get(known.declaration) != known.complete_from


class _Prunings:
    """What prunings have taken of the rows that counted at ``coverage``."""

    def __init__(self, project: Project, coverage: Coverage) -> None:
        self._coverage = coverage
        self._read = cache(lambda publication: read_coverage(project, publication))

    def keep(self, provisional: DeltaTable, of: tuple[str, str], progress: Progress, sequence: int) -> bool:
        """Whether all rows of a metric and declaration that counted up to ``sequence`` are in this version. A pruning
        takes those up to the cutoffs of a publication, which it names.
        """
        publication = seen_version("coverage", provisional)
        if publication is None or publication <= (self._coverage.publication or 0):
            return True
        try:
            later = self._read(publication).of(*of).cutoffs()
        except TableError:  # it is no longer kept
            return False
        then = self._coverage.of(*of).cutoffs()
        raised = {hour: then.get(hour, 0) for hour, cutoff in later.items() if cutoff > then.get(hour, 0)}
        if not raised:
            return True
        counted = progress.counted(min(raised.values()), sequence)
        return not any(hour in raised and raised[hour] < number <= later[hour] for hour, number in counted)


def _before_pruning(
    project: Project, provisional: DeltaTable, keeps: Callable[[DeltaTable], bool]
) -> DeltaTable | None:
    """The newest version that ``keeps`` all rows, which every version before it does. None: it is no longer kept."""
    if keeps(provisional):
        return provisional

    def loses(version: int) -> bool:
        try:
            return not keeps(open_table(provisional.table_uri, project.settings.storage_options, version))
        except TableError:  # Its log is no longer kept, so it is an old one.
            return False

    last = bisect_left(range(provisional.version()), True, key=loses) - 1
    return _open_kept(provisional.table_uri, project, last) if last >= 0 else None


def _at_sequence(project: Project, provisional: DeltaTable, sequence: int) -> DeltaTable | None:
    """The table at the version that the newest micro-batch up to ``sequence`` made. None: it is no longer kept.

    It is the first version with that sequence. In a later one, rows that counted then may have been deleted.
    """

    def at(version: int) -> DeltaTable:
        return open_table(provisional.table_uri, project.settings.storage_options, version)

    def sequence_at(version: int) -> int:
        """The sequence of a version, which never decreases. -1: its log is no longer kept."""
        try:
            return last_sequence(at(version))
        except TableError:
            return -1

    last = bisect_right(range(provisional.version() + 1), sequence, key=sequence_at) - 1
    if last < 0 or (target := sequence_at(last)) < 0:
        return None
    first = bisect_left(range(last), target, key=sequence_at)
    if first and sequence_at(first - 1) < 0:
        return None  # it may have been made by a pruning
    return then if is_whole(then := at(first)) else None


def _open_kept(uri: str, project: Project, version: int) -> DeltaTable | None:
    """The table at an old version. None: it is no longer kept. Raises TableError if it is kept and damaged."""
    options = project.settings.storage_options
    with suppress(TableError):
        if is_whole(table := open_table(uri, options, version)):
            return table
    newest = open_table(uri, options)
    if newest.version() == version and (damage := damage_of(newest, decoding=False)):
        raise TableError(damage)
    return None


def _gone(project: Project, publication: int | None) -> UsageError:
    kept = project.settings.batch.answers_kept
    return UsageError(
        f"the results of publication {publication} are no longer kept; "
        f"results can be repeated for {kept} (batch.answers_kept in hourline.yaml)"
    )
