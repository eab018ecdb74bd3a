"""What the machine has refused: disk, files, memory, threads. The sentence names the path or the limit."""

import errno
import os
import re
import resource
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hourline_core.error_causes import chain, errno_of, is_of_worker, texts_of
from hourline_core.errors import HourlineError, ResourceError, SetupError, UsageError

Told = tuple[type[HourlineError], str]
"""The class of an error, and its sentence."""

_NO_MEMORY_WORDS = (
    *("OutOfMemoryError", "Out of Memory Error", "Could not reserve enough space", "Could not allocate"),
    "insufficient memory for the Java Runtime Environment",
)
_NO_THREAD_WORDS = ("unable to create native thread", "can't start new thread")
_OF_DUCKDB = re.compile(r"(?:Out of Memory Error|Failed to commit): .*\([\d.]+ \w+/([\d.]+ \w+) used\)")
_CLASSES = {"Metaspace": "-XX:MaxMetaspaceSize", "Compressed class space": "-XX:CompressedClassSpaceSize"}
"""What Java calls its memory for classes, and the options that limit it."""


@dataclass(frozen=True)
class Surroundings:
    """What a process works with, for the sentence."""

    folders: Sequence[Path] = ()
    """Where it writes."""
    kafka: str | None = None
    """The address of its Kafka."""
    java_memory: str | None = None
    """The setting ``spark.driver_memory``."""
    worker_memory: str | None = None
    """The setting ``spark.worker_memory``."""


def explain_refusal(error: BaseException, around: Surroundings) -> Told | None:
    """What the system refused, which has caused ``error``. None: it refused nothing."""
    errors, number = [*chain(error)], errno_of(error)
    texts = [*texts_of(errors)]
    no_memory = number == errno.ENOMEM or any(isinstance(one, MemoryError) for one in errors)
    if limit := limit_of_worker(error):
        return ResourceError, _no_memory_of_worker(limit, around)
    if no_memory or any(words in text for text in texts for words in (*_NO_MEMORY_WORDS, *_NO_THREAD_WORDS)):
        return ResourceError, _no_memory("\n".join(texts), around)
    return _of_disk(number, _folder(errors, around, number)) or _of_file(error, number, around)


def limit_of_worker(error: BaseException) -> str | None:
    """The memory of DuckDB that a Python worker of Spark has used up. None: that is not what has caused ``error``."""
    errors = [*chain(error)]
    limit = _OF_DUCKDB.search("\n".join(texts_of(errors)))
    return limit[1] if limit and is_of_worker(errors) else None


def require_folder_of(file: Path) -> None:
    """Raise UsageError if the folder is not there that ``file`` is to be written into."""
    if not (folder := file.absolute().parent).is_dir():
        raise UsageError(f"the folder {folder} is not there; make it, or write elsewhere")


def _of_disk(number: int | None, folder: Path | str) -> Told | None:
    sentences = {
        errno.ENOSPC: f"the disk of {folder} is full; make room there",
        errno.EDQUOT: f"the disk quota of {folder} is used up; make room there",
        errno.EFBIG: f"a file in {folder} has reached the limit of a file's size (`ulimit -f`); raise the limit",
        errno.EROFS: f"{folder} is read-only; make it writable",
        errno.EIO: f"the disk of {folder} failed to read or write (input/output error); look at it",
        errno.ENOLCK: (
            f"the disk of {folder} gives no file locks; use a workspace on another disk "
            "(--workspace, or `workspace` in hourline.yaml)"
        ),
    }
    files = f"the limit of open files ({_limit(resource.RLIMIT_NOFILE)}, `ulimit -n`) is reached; raise it"
    sentences |= {errno.EMFILE: files, errno.ENFILE: files}
    return None if number not in sentences else (ResourceError, sentences[number])


def _of_file(error: BaseException, number: int | None, around: Surroundings) -> Told | None:
    """What the system says of a path."""
    errors = [*chain(error, handled=False)]
    paths = _paths(errors, around)
    if number == errno.EACCES and not paths:
        paths = [Path(_folder(errors, around, number))]
    said = number or next((one.errno for one in errors if isinstance(one, OSError) and one.filename), None)
    if said is None or not paths:
        return None
    path = paths[0]
    if said in (errno.EACCES, errno.EPERM):
        return SetupError, f"{path} may not be read or written by this user; change its owner or its permissions"
    if said == errno.ENOENT:
        return SetupError, f"{path} is not there; it was deleted or moved, or its disk is not mounted: bring it back"
    if said == errno.ESTALE:
        return ResourceError, f"{path} was lost by its network disk (stale file handle); mount that disk again"
    file = next((one for one in (path, *path.parents) if one.is_file()), None)
    if said in (errno.ENOTDIR, errno.EEXIST) and file is not None:
        return SetupError, f"{file} is a file, allowed is a folder; move it away"
    return SetupError, f"the system has refused {path} ({os.strerror(said).lower()})"


def _no_memory(text: str, around: Surroundings) -> str:
    if java := _limit_of_java(text, around):
        return java
    if limit := _OF_DUCKDB.search(text):
        return (
            f"DuckDB's memory limit of {limit[1]} is reached, 80 % of what this machine or container has; "
            "give it more memory, or ask for less at once"
        )
    if (limited := _limit(resource.RLIMIT_AS)) is not None:
        return f"the memory limit of {limited / 1e9:.1f} GB (`ulimit -v`) is reached; raise it"
    if any(words in text for words in _NO_THREAD_WORDS):
        most = _limit(resource.RLIMIT_NPROC) or "unlimited"
        return (
            f"the system starts no more threads; raise the limit of processes (`ulimit -u`, {most} here), or that of "
            "the container, or end other processes"
        )
    return (
        "the memory of this machine is used up; end other processes, or lower speed.max_records_per_batch or "
        "spark.driver_memory"
    )


def _no_memory_of_worker(limit: str, around: Surroundings) -> str:
    if around.worker_memory:
        return (
            f"a Python worker of Spark has used up its {limit}, the part of a core in spark.worker_memory "
            f"({around.worker_memory}); raise that in hourline.yaml"
        )
    return (
        f"a Python worker of Spark has used up its {limit}, the part of a core in 40 % of the machine's memory; give "
        "the machine more memory, or set spark.worker_memory to more of it in hourline.yaml"
    )


def _limit_of_java(text: str, around: Surroundings) -> str | None:
    """Which limit Spark's Java has reached. None: none of its own."""
    if "OutOfMemoryError" not in text:
        return None
    if "Java heap space" in text or "GC overhead limit" in text:
        memory = f" of {around.java_memory}" if around.java_memory else ""
        return f"the memory{memory} of Spark's Java is used up; raise spark.driver_memory in hourline.yaml"
    if "direct buffer" in text.lower():
        return "the buffers of Spark's Java have reached its memory limit; raise spark.driver_memory in hourline.yaml"
    for name, option in _CLASSES.items():
        if f"OutOfMemoryError: {name}" in text:
            where = "where it is set: spark.driver.extraJavaOptions in spark.config, or JAVA_TOOL_OPTIONS"
            return f"the memory of Spark's Java for classes ({name}) is used up; raise {option} {where}"
    return None


def _limit(of: int) -> int | None:
    soft = resource.getrlimit(of)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _folder(errors: Iterable[BaseException], around: Surroundings, number: int | None) -> Path | str:
    """The folder that the fault is about: the one that is named, else the one that is in that state."""
    named = _paths(errors, around)
    # The deepest: a disk may be mounted within the workspace, or within the tables.
    within = [(folder, path) for folder in around.folders for path in named if path.is_relative_to(folder)]
    if within:
        folder, path = max(within, key=lambda pair: len(pair[0].parts))
        mounted = (one for one in (path, *path.parents) if one.is_relative_to(folder) and os.path.ismount(one))
        return next(mounted, folder)
    for folder in around.folders:
        with suppress(OSError):
            state = os.statvfs(folder)
            if (number == errno.EROFS and state.f_flag & os.ST_RDONLY) or (
                number == errno.ENOSPC and state.f_bavail * state.f_frsize < 1_000_000
            ):
                return folder
    return named[0] if named else next(iter(around.folders), "this machine")


def _paths(errors: Iterable[BaseException], around: Surroundings) -> list[Path]:
    """The paths that are named: those of the system's errors, then those in the words of libraries."""
    errors = [*errors]
    files = [one.filename for one in errors if isinstance(one, OSError) and isinstance(one.filename, str | bytes)]
    words = "\n".join(texts_of(errors))
    within = [
        found
        for folder in around.folders
        for found in re.findall(rf"(?<![\w.-]){re.escape(str(folder))}(?:/[^\s'\":#()]*|\b)", words)
    ]
    return [Path(os.fsdecode(file)) for file in (*files, *within)]
