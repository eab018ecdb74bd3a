"""``schemas``: what the schema registry has, and copies of it in the project. Needs neither Spark nor Java."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load_settings_alone
from hourline.cli.output import say, say_json, say_table
from hourline_core.errors import OutputError, UsageError, did_you_mean

if TYPE_CHECKING:
    from hourline_core.formats.registry.client import RegistryClient
    from hourline_core.formats.registry.written_schema import WrittenSchema
    from hourline_core.model import Project

app = typer.Typer(name="schemas", help="Schemas of the schema registry.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def pull(
    subject: Annotated[str, typer.Argument(help="The subject, such as orders-value.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="The number of the version.", show_default="the newest one")
    ] = None,
) -> None:
    """Write a version of a subject into the folder schemas.

    Schemas in Avro that it refers to become parts of it. Files of Protobuf that it imports are written, too. Files that
    are there are replaced.
    """
    declared = load_settings_alone(project, workspace)
    from hourline_core.formats.registry.client import NotInRegistryError
    from hourline_core.model.loading import SCHEMAS_FOLDER

    client = _client(declared)
    try:
        number, schema = client.version(subject, version)
    except NotInRegistryError as error:
        if error.reference:
            raise UsageError(
                f"the schema of '{subject}' refers to '{error.reference}', which is not in the schema registry: {error}"
            ) from None
        hint = did_you_mean(subject, [name for name, _ in client.subjects()]) if "40401" in str(error) else ""
        raise UsageError(f"the schema registry has no such version of '{subject}': {error}{hint}") from None
    files, declared_as = _as_files(subject, schema)
    folder = declared.root / SCHEMAS_FOLDER
    others = [f"{name} ({_write(folder / name, content)})" for name, content in files[1:]]
    (name, content), *_ = files
    said = _write(folder / name, content)
    referred = ", ".join(others or schema.references)
    with_others = f", with {referred}" if referred else ""
    say(
        f"{SCHEMAS_FOLDER}/{name} ({said}): version {number} of subject '{subject}', schema id {schema.id}{with_others}"
    )
    say(f"a source reads it with `format: {{{declared_as}: {{schema: {name}, registry: true}}}}`")


@app.command(name="list")
def list_(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """List the subjects of the schema registry with their versions."""
    found = _client(load_settings_alone(project, workspace)).subjects()
    if format is ReportFormat.JSON:
        say_json([{"subject": subject, "versions": versions} for subject, versions in found])
    elif found:
        say_table(["subject", "versions"], [(subject, ", ".join(map(str, versions))) for subject, versions in found])
    else:
        say("no subjects: the schema registry has no schema yet")


def _client(project: "Project") -> "RegistryClient":
    from hourline_core.formats.registry.client import RegistryClient
    from hourline_core.model.registry import RegistryAccess

    if project.settings.registry is None:
        raise UsageError(
            "hourline.yaml has no schema registry: declare its address there, `registry: {url: https://HOST:PORT}`"
        )
    return RegistryClient(RegistryAccess.of(project.settings.registry, project.root, project.workspace))


def _as_files(subject: str, schema: "WrittenSchema") -> tuple[list[tuple[str, str]], str]:
    """The names and contents of the files with ``schema``, its own first, and the format that reads it."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", subject).lstrip(".") or "_"
    match schema.kind:
        case "AVRO":
            return [(f"{name}.avsc", _as_one_schema(schema))], "avro"
        case "PROTOBUF":
            return [(f"{name}.proto", schema.text), *_imported(schema, f"{name}.proto")], "protobuf"
        case "JSON":
            raise UsageError(
                f"{schema}: got a schema of JSON, of which nothing is read: a source declares its `fields`"
            )
    raise UsageError(f"{schema}: got a schema of {schema.kind}, allowed is one of AVRO or PROTOBUF")


def _as_one_schema(schema: "WrittenSchema") -> str:
    from hourline_core.formats.avro.one_schema import as_one_schema
    from hourline_core.model.avro_schema import AvroSchemaError

    try:
        return as_one_schema(schema.text, schema.references)
    except AvroSchemaError as error:
        raise UsageError(f"{schema} is not valid: {error}") from None


def _imported(schema: "WrittenSchema", name: str) -> list[tuple[str, str]]:
    """The files that ``schema``, which is written to ``name``, imports."""
    from hourline_core.model.protobuf_schema import find_no_file_name

    if ";" not in schema.text:
        raise UsageError(f"{schema}: got a descriptor, allowed is the text of a .proto; copy that from its producer")
    wrong = name if name in schema.references else find_no_file_name((*schema.references, name))
    if wrong:
        raise UsageError(f"{schema}: got a reference '{wrong}', which is no name of a file")
    for reference, text in schema.references.items():
        if ";" not in text:
            raise UsageError(
                f"{schema}: got a descriptor as its reference '{reference}', allowed is the text of a .proto; copy "
                "that from its producer"
            )
    return list(schema.references.items())


def _write(file: Path, content: str) -> str:
    """Write ``content``, and return what became of the file, in words."""
    try:
        before = file.read_text("utf-8") if file.exists() else None
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(content, "utf-8")
    except (OSError, ValueError) as error:
        raise OutputError(f"{file} cannot be written: {error}") from error
    return "as it was" if before == content else "replaced" if before is not None else "new"
