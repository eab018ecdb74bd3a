"""The encoding of a text file: UTF-8, with or without a byte order mark at its start."""

import codecs
from typing import IO

from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import DataFile

_OTHER_MARKS = {  # UTF-32 first, since its little-endian mark begins with that of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def skip_mark(stream: IO[bytes], file: DataFile) -> None:
    """Move ``stream``, which is at its start, behind a byte order mark of UTF-8.

    Raises UsageError when the file begins like UTF-16 or UTF-32: with their mark, or with zero bytes where these have
    them in ASCII text.
    """
    start = stream.read(4)
    if encoding := _other_encoding(start):
        raise UsageError(
            f"{file} is {encoding[0]}, allowed is UTF-8; convert it, as with iconv -f {encoding[1]} -t UTF-8"
        )
    stream.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)


def refuse_mark(file: DataFile, line: int) -> UsageError:
    """The error for a byte order mark that is not at the start of ``file``, but on ``line``."""
    return UsageError(
        f"{file}, line {line}: got a byte order mark, allowed is one at the start of the file only; "
        "if files were joined there, give them one by one"
    )


def _other_encoding(start: bytes) -> tuple[str, str] | None:
    """The encoding that ``start``, up to four bytes, tells, and its name for iconv."""
    for mark, name in _OTHER_MARKS.items():
        if start.startswith(mark):
            return name, name
    match [byte == 0 for byte in start]:
        case [False, True, True, True]:
            return "UTF-32 (little-endian)", "UTF-32LE"
        case [True, True, True, False]:
            return "UTF-32 (big-endian)", "UTF-32BE"
        case [False, True] | [False, True, False, True]:
            return "UTF-16 (little-endian)", "UTF-16LE"
        case [True, False] | [True, False, True, False]:
            return "UTF-16 (big-endian)", "UTF-16BE"
    return None
