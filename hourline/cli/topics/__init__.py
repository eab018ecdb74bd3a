"""``topics``: the topics of the project's Kafka. One file per command; they need neither Spark nor Java."""

import typer

from hourline.cli.topics import create, delete, describe, list_, produce, tail

app = typer.Typer(name="topics", help="Topics of the project's Kafka.", no_args_is_help=True, rich_markup_mode=None)
for command in (list_.list_, describe.describe, create.create, delete.delete, tail.tail, produce.produce):
    app.command(name=command.__name__.rstrip("_"))(command)
