"""``replay``: sends a file's events to Kafka."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from hourline.cli.declared_names import refuse_without_topic
from hourline.cli.options import ProjectFolder, Workspace, load, require_known
from hourline.cli.output import note
from hourline.exit_status import INTERRUPTED
from hourline_core.errors import UsageError
from hourline_core.formats.files.data_file import find_data_file
from hourline_core.formats.files.own_format import FORMATS_OF_RECORDS, format_text, refuse_other_format
from hourline_core.model import Source
from hourline_core.model.topics import matches, names_of, topic_text


def replay(
    file: Annotated[str, typer.Argument(help="CSV, JSON lines, Parquet, Avro, text or Protobuf, also packed.")],
    source: Annotated[str, typer.Option("--source", "-s", help="The source whose topic gets the events.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", help="The topic, if the source reads several.", show_default="its only one"),
    ] = None,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    order_by: Annotated[
        str | None, typer.Option(help="Send in the order of this column.", show_default="the file's order")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="The number of events per second.", show_default="as fast as possible")
    ] = None,
    speed: Annotated[
        float | None, typer.Option(help="Send this many times faster than the times in the --order-by column.")
    ] = None,
    format: Annotated[
        Literal["csv", "jsonl", "parquet", "avro", "text", "protobuf"] | None,
        typer.Option(
            help="The format of the file. text, protobuf: records in the source's format.",
            show_default="by its name",
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The column with the record's key.")] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            help="The number of a partition, or the column with it.", show_default="Kafka chooses, by the key"
        ),
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], typer.Option(help="The compression of batches.")
    ] = "lz4",
    null_text: Annotated[
        str | None, typer.Option(help="A cell that stands for null in CSV, besides the empty one without quotes.")
    ] = None,
    transactional: Annotated[
        bool,
        typer.Option("--transactional", help="Send in transactions, each of which is committed as a whole or aborted."),
    ] = False,
) -> None:
    """Send a file's events to Kafka, once per run. They go to the topic of the source. The command waits until
    Kafka has stored them. It sends JSON; or records in the format of the source, as they are.
    """
    declared = load(project, workspace)
    reader = declared.sources[require_known("source", source, list(declared.sources))]
    refuse_without_topic(reader, "send the events to an input of it")
    format = find_data_file(file, format).format
    avro = reader.format.avro if format == "avro" and not reader.format.uses_registry else None
    if format in FORMATS_OF_RECORDS:
        refuse_other_format(format, file, reader, _files_for(reader))
    elif avro is None and not reader.format.is_plain_json:
        raise UsageError(
            f"source '{reader.name}' takes records in {format_text(reader)}, and `hourline replay` makes JSON of "
            f"{file}: {_files_for(reader)}"
        )
    chosen = _topic(reader, topic)
    from hourline.replay.replay_file import replay_file
    from hourline_core.runtime.kafka import kafka_of
    from hourline_core.runtime.lease import lease_holder
    from hourline_core.runtime.topics import ensure_topic

    options = declared.settings.kafka.options
    with kafka_of(declared) as kafka:
        if chosen in names_of(reader.topic):  # Hourline creates no topic of a pattern.
            ensure_topic(kafka.address, chosen, reader.partitions, options, reader.retention)
        delivered = replay_file(
            file,
            bootstrap=kafka.address,
            topic=chosen,
            client_options=options,
            format=format,
            order_by=order_by,
            rate=rate,
            speed=speed,
            key=key,
            partition=int(partition) if partition and partition.isdecimal() else partition,
            compression=compression,
            null_text=null_text,
            fields=reader.fields,
            avro_schema=avro.schema_ if avro else None,
            transactional=transactional,
        )
    if not declared.settings.kafka.bootstrap and lease_holder(declared.workspace, "speed") is None:
        note("no speed layer reads them yet: this project's own Kafka keeps them until `hourline up`")
    if delivered.interrupted:
        raise typer.Exit(INTERRUPTED)


def _files_for(source: Source) -> str:
    """Which files can be sent to ``source``."""
    if source.format.is_plain_json:
        return "if the file is CSV, JSON lines, Parquet or Avro, say so, as in --format jsonl"
    ways = {
        "text": "give a file of lines, with --format text",
        "csv": "give a file of rows without a header, with --format text",
        "protobuf": "give a file of messages, each with its length in front, with --format protobuf",
        "avro": "give an Avro file of the same schema",
    }
    producer = "send them with a producer of that format"
    return producer if source.format.uses_registry else f"{ways[source.format.name]}, or {producer}"


def _topic(source: Source, topic: str | None) -> str:
    """The topic to send to. Raises UsageError."""
    if topic is None and len(names := names_of(source.topic)) == 1:
        return names[0]
    if topic is None or not matches(source.topic, topic):
        got = "no --topic" if topic is None else f"--topic {topic}"
        raise UsageError(f"got {got}, allowed are the topics of source '{source.name}': {topic_text(source.topic)}")
    return topic
