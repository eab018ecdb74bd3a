"""Standard output and standard error of the command line: their encoding, and what becomes of a write that fails."""

import errno
import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from hourline_core.errors import OutputError, UnreadOutputError

_STANDARD_ERROR = 2

_OTHERWISE = ("PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONINTMAXSTRDIGITS", "PYTHONINSPECT")
"""Variables that change what a program does. A child never gets them; see child_environment.py."""


class _Output(FileIO):
    """Standard output. Its errors are not those of the workspace, which raise the same exceptions."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise UnreadOutputError("nobody reads the output any more") from None
            raise OutputError(
                f"the output cannot be written ({os.strerror(error.errno or 0).lower()}); "
                "make room where it goes, or send it elsewhere"
            ) from None


class _Errors(FileIO):
    """Standard error. Nobody can be told that a write to it failed, so the work goes on."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def run_as_usual() -> None:
    """Run this program again if its environment has Python run it in another way: with names of files in another
    encoding than UTF-8, such as ASCII, without texts of help, or with warnings of libraries as errors.

    Then it reads names of files and arguments as they are, and prints all characters. Python itself does so for the
    locale C, unless its environment forbids it. The encoding of a process is fixed when it starts.
    """
    mode = ["-X", "utf8"]  # and no variable, which the option -E ignores
    options = mode if sys.getfilesystemencoding() != "utf-8" and sys.orig_argv[1:3] != mode else []
    kept = {name: value for name, value in os.environ.items() if name not in _OTHERWISE}
    if options or len(kept) < len(os.environ):
        arguments = [sys.executable, *options, *sys.orig_argv[1:]]
        os.execve(sys.executable, arguments, kept)  # noqa: S606 (this program again)


def open_standard_streams() -> None:
    """Have writes to standard output raise OutputError or UnreadOutputError, and those to standard error raise
    nothing. A stream that this process was started without, as with ``2>&-``, becomes the null device.

    Python has None in its place, where everything fails that prints. And the system gives its number to the next file
    that is opened, so what libraries print would be written into that file.
    """
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 (as long as this)
    sys.stdout = _text(_Output(_number(sys.stdout), "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Errors(_number(sys.stderr), "w", closefd=False), sys.stderr)


def error_stream(number: int) -> TextIOWrapper:
    """A stream for messages to the file descriptor ``number``, which is closed with it. Its writes raise nothing."""
    return _text(_Errors(number, "w"), sys.stderr)


def native_errors_to(log: Path) -> None:
    """What libraries write to standard error beside Python goes to ``log`` from now on. Python's own goes where it
    went. Does nothing if ``log`` cannot be written.

    delta-rs writes a trace there for each panic of a thread, also of one that it gets over: on a full disk, a writer of
    ``object_store/src/buffered.rs`` panics when it is shut down for the second time.
    """
    if sys.stderr.fileno() != _STANDARD_ERROR:
        return  # done already
    try:
        file = log.open("ab")
    except OSError:
        return
    with file:
        sys.stderr.flush()
        sys.stderr = error_stream(os.dup(_STANDARD_ERROR))
        os.dup2(file.fileno(), _STANDARD_ERROR)


def _number(stream: TextIO | None) -> int:
    return os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()


def _text(file: FileIO, before: TextIO | None) -> TextIOWrapper:
    """A stream in the encoding of the one before it. What that lacks is escaped."""
    return TextIOWrapper(
        BufferedWriter(file),
        encoding="utf-8" if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=isinstance(file, _Errors) or file.isatty(),
    )
