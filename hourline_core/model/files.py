"""Files and Delta tables that a source reads as they arrive, in place of topics."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.times import Duration


def _path(text: str) -> str:
    if "://" in text:
        raise refuse(f"got {describe(text)}, allowed is a path on this machine")
    return text


LocalPath = Annotated[str, StringConstraints(min_length=1), AfterValidator(_path)]
"""A path; relative to the project's folder if it is not absolute."""


class Files(Declaration):
    """A folder that files arrive in."""

    folder: LocalPath
    """The folder. Those in it are read, too. A relative path is relative to the project's folder."""

    pattern: Annotated[str, StringConstraints(min_length=1)] = "*"
    """The names of the files that are read, such as `*.csv`, with `*`, `?` and `[…]` as in a shell. Names that begin
    with `.` or `_`, or end with `.tmp`, `.part` or `.partial`, are passed over.
    """

    format: Literal["csv", "jsonl", "parquet", "avro", "text", "protobuf"] | None = None
    """The format of the files. By default, their names tell it, as for `hourline import`. `text` and `protobuf`: each
    line, or each message behind its length, is a record in the `format` of the source.
    """

    null_text: str | None = None
    """A cell that stands for null in CSV, besides the empty one without quotes."""

    settle: Duration = timedelta(seconds=5)
    """The time for which a file must not change before it is read. `0s` is enough if files are moved into the folder
    when they are whole.
    """


class DeltaCommits(Declaration):
    """A Delta table whose rows are the events: those that it has at first, and those that later commits add."""

    table: LocalPath
    """The folder of the table. A relative path is relative to the project's folder."""

    skip_change_commits: bool = False
    """What happens at a commit that changes or deletes rows. `true`: it is passed over, with all that it adds. `false`:
    nothing is read from there on.
    """
