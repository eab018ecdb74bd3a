"""The sources that have records which are to be decoded anew, and up to which sequence that is done."""

from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.open_progress import find_progress
from hourline_core.model import Project, Source
from hourline_core.model.decoding import Decoding
from hourline_core.storage.opening import exists, open_table

DECODE_WRITER = "hourline-decode"
"""The application id of a commit, whose version is the sequence up to which the table is complete."""


def decoded_up_to(layout: Layout, source: Source, decoding: Decoding) -> int:
    """The sequence up to which the records of ``source`` are decoded anew by ``decoding``. 0: none are."""
    uri = layout.decoded(source, decoding.hash)
    if not exists(uri, layout.storage_options):
        return 0
    return open_table(uri, layout.storage_options).transaction_version(DECODE_WRITER) or 0


def sources_to_decode(project: Project) -> list[Source]:
    """The sources that have records which are to be decoded anew. Raises TableError."""
    layout, sources = Layout.of(project), []
    for source in project.sources.values():
        if progress := find_progress(project, source):
            decodings = ArchiveDecodings.of(open_table(layout.events(source), layout.storage_options), source)
            if decoded_up_to(layout, source, decodings.now) < decodings.last_of_others(progress.sequence):
                sources.append(source)
    return sources
