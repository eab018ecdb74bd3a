"""The tables of events that were decoded anew. The batch layer alone writes them."""

from collections.abc import Iterator

from deltalake import DeltaTable
from pyarrow.fs import FileSelector, FileType

from hourline_core.ledger.layout import Layout
from hourline_core.model import Source
from hourline_core.storage.data_files import file_system
from hourline_core.storage.opening import exists, open_table


def list_decoded(layout: Layout, source: Source) -> list[str]:
    """The hashes of the decodings by which records of ``source`` were decoded anew, now or before."""
    files = file_system(layout.decoded_by(source), layout.storage_options)
    found = files.get_file_info(FileSelector("", allow_not_found=True))
    return sorted(file.base_name for file in found if file.type == FileType.Directory)


def open_decoded(layout: Layout, source: Source) -> Iterator[DeltaTable]:
    """The tables of these decodings, at their newest versions. Raises TableError."""
    for decoding in list_decoded(layout, source):
        if exists(uri := layout.decoded(source, decoding), layout.storage_options):
            yield open_table(uri, layout.storage_options)
