"""The sources that have records which are to be decoded anew, and up to which sequence that is done."""

from deltalake import DeltaTable

from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import BYTES_WRITER, Progress
from hourline_core.model import Project, Source
from hourline_core.model.decoding import Decoding
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import exists, open_table

DECODE_WRITER = "hourline-decode"
"""The application id of a commit, whose version is the sequence up to which the table is complete."""


def decoded_up_to(layout: Layout, source: Source, decoding: Decoding) -> int:
    """The sequence up to which the records of ``source`` are decoded anew by ``decoding``. 0: none are."""
    uri = layout.decoded(source, decoding.hash)
    if not exists(uri, layout.storage_options):
        return 0
    return open_table(uri, layout.storage_options).transaction_version(DECODE_WRITER) or 0


def last_to_decode(decodings: ArchiveDecodings, rejected: DeltaTable, up_to: int) -> int:
    """The last sequence, at most ``up_to``, that may have records to decode anew. 0: there is none. ``rejected`` may
    have bytes of records whose events were archived without them.
    """
    brought = rejected.transaction_version(BYTES_WRITER) or 0 if decodings.lost else 0
    return max(decodings.last_of_others(up_to), min(brought, up_to))


def sources_to_decode(project: Project) -> list[Source]:
    """The sources that have records which are to be decoded anew. Raises TableError."""
    layout, sources = Layout.of(project), []
    with OpenTables(layout.storage_options) as opened:
        for source in project.sources.values():
            # A derived event has no record: what its inputs make of theirs is theirs.
            if not source.is_derived and (progress := opened.find(layout.progress(source))):
                decodings = ArchiveDecodings.of(opened.open(layout.events(source)), source)
                rejected, sequence = opened.open(layout.rejected(source)), Progress(progress).sequence
                if decoded_up_to(layout, source, decodings.now) < last_to_decode(decodings, rejected, sequence):
                    sources.append(source)
    return sources
