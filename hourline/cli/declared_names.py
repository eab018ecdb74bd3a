"""The source or metric that a command is given by its name."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hourline_core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from hourline_core.model import Project, Source

Kind = Literal["source", "metric"]

DeclaredName = Annotated[
    str, typer.Argument(help="The source or metric; source:NAME or metric:NAME if both have that name.")
]


def refuse_without_topic(source: "Source", instead: str) -> None:
    """Raise UsageError if ``source`` reads no topic. ``instead`` says what to do with one of its inputs, if it is
    derived.
    """
    if source.is_derived:
        raise UsageError(f"source '{source.name}' is {source.origin_text}, and has no records of its own: {instead}")
    if source.reads_files:
        where = "put the file into the folder" if source.files else "append the rows to the table"
        raise UsageError(f"source '{source.name}' is {source.origin_text}, and not from a topic: {where}")


def find_declared(project: "Project", text: str) -> tuple[Kind, str]:
    """The kind and the name in ``text``, such as ``clicks``, ``source:clicks`` or ``metric:clicks``. Raises UsageError
    with a near name, or if both a source and a metric have the name.
    """
    kind, _, name = text.rpartition(":")
    of_kind: dict[Kind, list[str]] = {"source": list(project.sources), "metric": list(project.metrics)}
    kinds = [one for one, declared in of_kind.items() if kind in ("", one) and name in declared]
    if len(kinds) > 1:
        raise UsageError(f"'{name}' is a source and a metric; say source:{name} or metric:{name}")
    if not kinds:
        if others := [one for one, declared in of_kind.items() if name in declared]:
            raise UsageError(f"'{name}' is a {others[0]}, not a {kind}")
        if name in project.rollups:
            project.find_metric(name)
        allowed = [*project.sources, *project.metrics]
        raise UsageError(f"there is no source or metric '{text}'{did_you_mean(text, allowed)}")
    return kinds[0], name
