"""The fields of sources whose format has a schema: those that follow from it, and those that it does not have."""

from collections.abc import Iterator

from hourline_core.formats.format import decoder_of
from hourline_core.model.project import Project


def find_unreadable(project: Project) -> Iterator[str]:
    """For each source whose declared fields its schema cannot give, the line of them, and why."""
    for source in project.sources.values():
        if not source.is_derived and (fault := decoder_of(source.format, source.fields).fault):
            yield f"{project.where_declared('source', source.name, ('fields',))}: fields: {fault}"


def describe_following_fields(project: Project) -> Iterator[str]:
    """For each source without declared fields, those that follow from its schema, and the other members."""
    for source in project.sources.values():
        if source.is_derived or "fields" in project.documents["source", source.name].content:
            continue
        following = source.format.fields
        fields = ", ".join(f"{name}: {kind}" for name, kind in following.items() if kind)
        without = ", ".join(name for name, kind in following.items() if not kind)
        yield f"{source.name}: fields {fields}" + (f"; no field follows from {without}" if without else "")
