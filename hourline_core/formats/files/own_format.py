"""Files whose records are in the format of their source: lines of text, and messages of Protobuf."""

from collections.abc import Mapping, Sequence

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import Format
from hourline_core.model import Source

FORMATS_OF_RECORDS: Mapping[Format, Sequence[str]] = {"text": ("text", "csv"), "protobuf": ("protobuf",)}
"""By the format of such a file, the formats of the sources that read it."""


def refuse_other_format(format: Format, file: str, source: Source, instead: str) -> None:
    """Raise UsageError if ``file``, of one of FORMATS_OF_RECORDS, has no records in the format of ``source``.
    ``instead`` says what to do then.
    """
    if source.format.name in FORMATS_OF_RECORDS[format] and not source.format.uses_registry:
        return
    what = "lines of text" if format == "text" else "messages of Protobuf"
    names = " or ".join(FORMATS_OF_RECORDS[format])
    raise UsageError(
        f"{file} holds {what}, which a source with `format: {names}` reads; source '{source.name}' takes records in "
        f"{format_text(source)}: {instead}"
    )


def format_text(source: Source) -> str:
    """The format of the records of ``source``, for messages."""
    of_registry = " that name schemas of a registry" if source.format.uses_registry else ""
    return f"{source.format.name}{of_registry}"
