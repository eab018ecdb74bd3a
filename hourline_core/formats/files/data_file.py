"""Finds a file of records, derives its format from its name, and opens it, also inside a zip or gzip."""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.model.home_folder import expand_home

Format = Literal["csv", "jsonl", "parquet", "avro", "text", "protobuf"]
"""The format of a file. ``text`` and ``protobuf``: its records are in the format of their source, each a line or a
message with its length in front.
"""
_ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".avro": "avro",
    ".log": "text",
    ".txt": "text",
}
_PACKED = (".gz", ".zip")
_READABLE = f"readable are {', '.join(_ENDINGS)}, each also as {' or '.join(_PACKED)}"
_MOST_NAMES_SHOWN = 10


@dataclass(frozen=True)
class DataFile:
    """A file of records, which can be read repeatedly."""

    path: Path
    format: Format
    member: str | None = None
    """The member with the records, if the file is a zip."""

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    @property
    def packed(self) -> bool:
        """Whether the file is a zip or gzip."""
        return self.path.suffix.lower() in _PACKED

    @property
    def unpacked_ending(self) -> str:
        """The ending that determines its format, in lower case."""
        return _unpacked_ending(self.path, self.member)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the unpacked bytes. Errors of reading within the block are raised as UsageError."""
        with _readable(self.path), ExitStack() as stack:
            if self.member:
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                yield stack.enter_context(archive.open(self.member))
            elif self.path.suffix.lower() == ".gz":
                yield cast(IO[bytes], stack.enter_context(gzip.open(self.path)))
            else:
                yield stack.enter_context(self.path.open("rb"))


def find_data_file(name: str, format: Format | None = None) -> DataFile:
    """The file ``name``. ``file.zip::member`` selects one of several members.

    Without ``format``, the ending determines it: csv, jsonl (also ndjson, json), parquet or avro. Raises UsageError for
    a missing, empty or unreadable file, a folder, an unknown ending, and a zip without a clear member.
    """
    path_text, _, member = name.partition("::")
    path = expand_home(path_text)
    if member and path.suffix.lower() != ".zip":
        _require_file(path)
        raise UsageError(f"{path} is not a zip, but '{name}' asks for its member '{member}'; leave '::{member}' out")
    return find_data_file_at(path, member, format)


def find_data_file_at(path: Path, member: str = "", format: Format | None = None) -> DataFile:
    """The file at ``path``, or the ``member`` of that zip. Otherwise as ``find_data_file``."""
    _require_file(path)
    if path.suffix.lower() == ".zip":
        member = _choose_member(path, member)
    return DataFile(path, format or _format_of(path, member), member or None)


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give a file in it{_suggest_names(path, '')}")
    if not path.exists():
        if not path.parent.is_dir():
            raise UsageError(f"there is no file {path}, nor its folder {path.parent}")
        raise UsageError(f"there is no file {path}{_suggest_names(path.parent, path.name)}")
    if not path.is_file():
        # The file is read more than once, which a pipe does not allow.
        raise UsageError(f"{path} is a pipe or a device; write its records into a file first")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty")


def _suggest_names(folder: Path, name: str) -> str:
    with _readable(folder):
        names = [entry.name for entry in folder.iterdir() if entry.suffix.lower() in {*_ENDINGS, *_PACKED}]
    hint = did_you_mean(name, names)
    return hint if "did you mean" in hint or len(names) <= _MOST_NAMES_SHOWN else ""


def _unpacked_ending(path: Path, member: str | None) -> str:
    name = member or (path.stem if path.suffix.lower() == ".gz" else path.name)
    return PurePosixPath(name).suffix.lower()


def _format_of(path: Path, member: str) -> Format:
    if format := _ENDINGS.get(_unpacked_ending(path, member)):
        return format
    raise UsageError(
        f"the ending of {member or path} does not tell its format: {_READABLE}; "
        "otherwise name the format, as in --format csv"
    )


def _choose_member(path: Path, wanted: str) -> str:
    with _readable(path), zipfile.ZipFile(path) as archive:
        members = [info.filename for info in archive.infolist() if not info.is_dir() and not _is_clutter(info.filename)]
    if wanted:
        if wanted not in members:
            raise UsageError(f"{path} has no member '{wanted}'{did_you_mean(wanted, members)}")
        return wanted
    candidates = (
        members
        if len(members) == 1
        else [member for member in members if PurePosixPath(member).suffix.lower() in _ENDINGS]
    )
    if len(candidates) != 1:
        which = f"{len(candidates)} files of records: {', '.join(candidates)}" if candidates else "no file of records"
        raise UsageError(
            f"{path} holds {which}; "
            f"choose a member, as in '{path.name}::{(candidates or ['flights.csv'])[0]}' ({_READABLE})"
        )
    return candidates[0]


def _is_clutter(member: str) -> bool:
    return member.startswith("__MACOSX/") or PurePosixPath(member).name.startswith(".")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise UsageError(f"{path} ends in the middle of its packed data; copy or download it again") from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        kind = path.suffix.lower().lstrip(".")
        raise UsageError(
            f"{path} is not a valid {kind} file ({error}); copy or download it again, or rename it if it is none"
        ) from None
    # zipfile raises these for a password and for an unknown compression.
    except (NotImplementedError, RuntimeError) as error:
        raise UsageError(f"{path} cannot be unpacked ({error}); unpack it, and give the unpacked file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
