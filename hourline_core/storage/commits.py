"""Commits to a Delta table: made on the version that its handle is open at, or not at all.

delta-rs commits, in this process. ``max_commit_retries=0`` makes a commit fail when another process has committed since
the handle was opened. That fences a writer that lost its lease without knowing it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError

from hourline_core.errors import ConflictError
from hourline_core.runtime import failpoints
from hourline_core.runtime.boot import this_boot
from hourline_core.storage.commit_log import BOOT, TRANSACTIONS
from hourline_core.storage.durable import sync_commits
from hourline_core.storage.seen_versions import NO_VERSIONS, transactions
from hourline_core.storage.statistics import ROWS_IN_GROUP, writer_properties

LOG_KEPT = PostCommitHookProperties(cleanup_expired_logs=False)
"""A commit deletes no old ones: the checkpoint that replaces them may not be on disk yet. And in a long log, looking
for them takes longer than the commit itself. See ``clean_up_log``.
"""


def fence(table: DeltaTable) -> None:
    """Commit only a new version. A writer that opened the table before cannot write to it any more. Raises
    ConflictError as ``append`` does.
    """
    with durable_step("fence", table):
        write_deltalake(
            table,
            pa.schema(table.schema().to_arrow()).empty_table(),
            mode="append",
            commit_properties=commit_properties({"fenced": "a start"}),
            post_commithook_properties=LOG_KEPT,
        )


def append(
    table: DeltaTable,
    rows: pa.Table,
    metadata: Mapping[str, Any],
    writers: Sequence[str] = (),
    sequence: int = 0,
    seen: Mapping[str, int] = NO_VERSIONS,
) -> None:
    """Append ``rows``. The commit also records ``sequence`` as the newest of each of ``writers`` (an application
    transaction), and the versions of other tables that it depends on (``seen``).

    Raises ConflictError when the table has a commit that this handle has not seen.
    """
    recorded = [*(Transaction(writer, sequence) for writer in writers), *transactions(seen)]
    with durable_step("append", table):
        write_deltalake(
            table,
            rows,
            mode="append",
            commit_properties=commit_properties(metadata, recorded),
            writer_properties=writer_properties(rows.schema),
            post_commithook_properties=LOG_KEPT,
        )


def overwrite(
    table: DeltaTable,
    rows: pa.Table,
    predicate: str | None,
    metadata: Mapping[str, Any],
    seen: Mapping[str, int] = NO_VERSIONS,
    writers: Sequence[str] = (),
    sequence: int = 0,
) -> None:
    """Replace the rows that fulfil ``predicate`` (None: all) by ``rows``, which keep their order. ``seen``,
    ``writers``, ``sequence`` and errors are as in ``append``.
    """
    properties = commit_properties(
        metadata, [*(Transaction(writer, sequence) for writer in writers), *transactions(seen)]
    )
    with durable_step("overwrite", table):
        write_deltalake(
            table,
            rows.combine_chunks(),  # delta-rs writes several pieces in any order
            mode="overwrite",
            predicate=predicate,
            commit_properties=properties,
            writer_properties=writer_properties(rows.schema, ROWS_IN_GROUP),
            post_commithook_properties=LOG_KEPT,
        )


def delete(
    table: DeltaTable, predicate: str | None, metadata: Mapping[str, Any], seen: Mapping[str, int] = NO_VERSIONS
) -> None:
    """Delete the rows that fulfil ``predicate`` (None: all, without reading them). ``seen`` and errors are as in
    ``append``.
    """
    with durable_step("delete", table):
        table.delete(
            predicate,
            writer_properties=writer_properties(pa.schema(table.schema().to_arrow())),
            commit_properties=commit_properties(metadata, transactions(seen)),
            post_commithook_properties=LOG_KEPT,
        )


def restore(table: DeltaTable, version: int, metadata: Mapping[str, Any]) -> None:
    """Make the table's newest version equal to ``version``. Raises ConflictError as ``append`` does."""
    with durable_step("restore", table):
        table.restore(version, commit_properties=commit_properties(metadata))


def clean_up_log(table: DeltaTable) -> None:
    """Delete the commits that are older than the table's ``logRetentionDuration``, and that its last checkpoint
    replaces.
    """
    table.cleanup_metadata()


def is_from_earlier_boot(table: DeltaTable) -> bool:
    """Whether the machine has started since the last commit: what came after it may be lost."""
    return table.history(1)[0].get(f"hourline.{BOOT}") not in (None, this_boot())


@contextmanager
def durable_step(name: str, table: DeltaTable) -> Iterator[None]:
    """One durable step: a commit to ``table`` within the block, which is on disk at the end of the block. It has a
    failpoint on either side.
    """
    place, before = f"{name} {table.metadata().name}", table.version()
    failpoints.visit(f"before {place}")
    try:
        yield
    except CommitFailedError:
        raise ConflictError(
            f"another process has written to the table at {table.table_uri} since version {table.version()}; "
            "this one stops and changes nothing"
        ) from None
    sync_commits(table, before)
    failpoints.visit(f"after {place}")


def commit_properties(metadata: Mapping[str, Any], recorded: Sequence[Transaction] = ()) -> CommitProperties:
    """Properties for a commit on the version that the handle is open at, with ``metadata`` and application
    transactions.
    """
    told = {**metadata, BOOT: this_boot(), **({TRANSACTIONS: len(recorded)} if recorded else {})}
    return CommitProperties(
        custom_metadata={f"hourline.{key}": str(value) for key, value in told.items()},
        max_commit_retries=0,
        app_transactions=list(recorded),
    )
