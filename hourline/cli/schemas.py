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

    Schemas that it refers to become parts of it. A file that is there is replaced.
    """
    declared = load_settings_alone(project, workspace)
    from hourline_core.formats.registry.client import NotInRegistryError
    from hourline_core.model.loading import SCHEMAS_FOLDER

    client = _client(declared)
    try:
        number, schema = client.version(subject, version)
    except NotInRegistryError as error:
        hint = did_you_mean(subject, [name for name, _ in client.subjects()]) if "40401" in str(error) else ""
        raise UsageError(f"the schema registry has no such version of '{subject}': {error}{hint}") from None
    name, content = _as_file(subject, schema)
    file = declared.root / SCHEMAS_FOLDER / name
    before = _write(file, content)
    what = "as it was" if before == content else "replaced" if before is not None else "new"
    with_others = f", with {', '.join(schema.references)}" if schema.references else ""
    say(
        f"{SCHEMAS_FOLDER}/{name} ({what}): version {number} of subject '{subject}', schema id {schema.id}{with_others}"
    )
    say(f"a source reads it with `format: {{avro: {{schema: {name}, registry: true}}}}`")


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


def _as_file(subject: str, schema: "WrittenSchema") -> tuple[str, str]:
    """The name and content of a file with ``schema``."""
    from hourline_core.formats.avro.one_schema import as_one_schema
    from hourline_core.model.avro_schema import AvroSchemaError

    if schema.kind != "AVRO":
        raise UsageError(f"{schema}: got a schema of {schema.kind}, allowed is one of AVRO")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", subject).lstrip(".") or "_"
    try:
        return f"{name}.avsc", as_one_schema(schema.text, schema.references)
    except AvroSchemaError as error:
        raise UsageError(f"{schema} is not valid: {error}") from None


def _write(file: Path, content: str) -> str | None:
    """Write ``content``, and return what was there before."""
    try:
        before = file.read_text("utf-8") if file.exists() else None
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, "utf-8")
    except (OSError, ValueError) as error:
        raise OutputError(f"{file} cannot be written: {error}") from error
    return before
