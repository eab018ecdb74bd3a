"""A file of records: found, its format told by its name, and opened through whatever it is packed in."""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

from hourline_core.errors import UsageError, did_you_mean

Format = Literal["csv", "jsonl", "parquet"]
_ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_PACKED = (".gz", ".zip")
_READABLE = f"readable are {', '.join(_ENDINGS)}, each also as {' or '.join(_PACKED)}"
_MOST_NAMES_SHOWN = 10


@dataclass(frozen=True)
class DataFile:
    """A file whose records can be read, as often as wanted."""

    path: Path
    format: Format
    member: str | None = None
    """The member that holds the records, when the file is a zip."""

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    @property
    def packed(self) -> bool:
        """Whether its bytes come out of a zip or gzip."""
        return self.path.suffix.lower() in _PACKED

    @property
    def unpacked_ending(self) -> str:
        """The ending that tells its format, in lower case."""
        return _unpacked_ending(self.path, self.member)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its unpacked bytes. Whatever goes wrong while they are read within the block is raised as UsageError."""
        with _readable(self.path), ExitStack() as stack:
            if self.member:
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                yield stack.enter_context(archive.open(self.member))
            elif self.path.suffix.lower() == ".gz":
                yield cast(IO[bytes], stack.enter_context(gzip.open(self.path)))
            else:
                yield stack.enter_context(self.path.open("rb"))


def find_data_file(name: str, format: Format | None = None) -> DataFile:
    """The file ``name``; ``file.zip::member`` chooses one of several members. Without ``format`` it is told by the
    ending: csv, jsonl (also ndjson, json) or parquet.

    Raises UsageError: no such file, a folder, an empty or unreadable file, an ending that tells no format, a zip
    without a clear member.
    """
    path_text, _, member = name.partition("::")
    path = Path(path_text).expanduser()
    _require_file(path)
    if path.suffix.lower() == ".zip":
        member = _choose_member(path, member)
    elif member:
        raise UsageError(f"{path} is not a zip, but '{name}' asks for its member '{member}'; leave '::{member}' out")
    return DataFile(path, format or _format_of(path, member), member or None)


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give a file in it{_near(path, '')}")
    if not path.exists():
        if not path.parent.is_dir():
            raise UsageError(f"there is no file {path}, nor its folder {path.parent}")
        raise UsageError(f"there is no file {path}{_near(path.parent, path.name)}")
    if not path.is_file():
        # It is read more than once, which a pipe cannot be.
        raise UsageError(f"{path} is a pipe or a device; write its records into a file first")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty")


def _near(folder: Path, name: str) -> str:
    with _readable(folder):
        names = [entry.name for entry in folder.iterdir() if entry.suffix.lower() in {*_ENDINGS, *_PACKED}]
    hint = did_you_mean(name, names)
    return hint if "did you mean" in hint or len(names) <= _MOST_NAMES_SHOWN else ""


def _unpacked_ending(path: Path, member: str | None) -> str:
    name = member or (path.stem if path.suffix.lower() == ".gz" else path.name)
    return PurePosixPath(name).suffix.lower()


def _format_of(path: Path, member: str) -> Format:
    if found := _ENDINGS.get(_unpacked_ending(path, member)):
        return found
    raise UsageError(
        f"the ending of {member or path} does not tell its format: {_READABLE}; otherwise name the format, as in --format csv"
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
            f"{path} holds {which}; choose a member, as in '{path.name}::{(candidates or ['flights.csv'])[0]}' ({_READABLE})"
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
            f"{path} is not a sound {kind} file ({error}); copy or download it again, or rename it if it is none"
        ) from None
    except (
        NotImplementedError,
        RuntimeError,
    ) as error:  # zipfile's words for a password, or a packing it does not know
        raise UsageError(f"{path} cannot be unpacked ({error}); unpack it, and give what was in it") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
