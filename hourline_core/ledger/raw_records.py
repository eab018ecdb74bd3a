"""What `hourline check` says about the records' bytes: whether they are kept, and what follows if they were not."""

from collections.abc import Iterator

from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout
from hourline_core.model import Project, Source
from hourline_core.storage.opening import exists


def notes_on_raw_records(project: Project) -> Iterator[str]:
    """One sentence for each source that its owner should know of. Raises TableError."""
    for source in project.sources.values():
        if source.is_derived:  # Its events have no records. Those of its inputs are told there.
            continue
        where = project.where_declared("source", source.name, ("raw",) if "raw" in source.model_fields_set else ())
        if not source.raw:
            yield (
                f"{where}: raw: false: the archive keeps no record's bytes; a field that is declared later, or in "
                "another way, counts from then on only"
            )
        yield from (f"{where}: {words}" for words in _of_archive(project, source))


def _of_archive(project: Project, source: Source) -> Iterator[str]:
    layout = Layout.of(project)
    if not exists(layout.events(source), layout.storage_options):
        return
    decodings = ArchiveDecodings.read(layout, source)
    if not decodings.used and source.raw:
        yield (
            "from the next start on, the archive keeps the bytes of each record, also of undeclared fields, which may "
            "be personal data; `raw: false` declares that it does not"
        )
    brings = f" until `hourline reset {source.name}` has read them again, if Kafka still has them" if source.raw else ""
    for lost in decodings.lost_fields:
        if lost.fields:
            since = f" from sequence {lost.first:,}" if lost.first > 1 else ""
            until = "" if lost.last is None else f" up to sequence {lost.last:,}"
            yield (
                f"the bytes of the records{since}{until} were not kept, so metrics over "
                f"{', '.join(sorted(lost.fields))} are missing in their hours{brings}"
            )
