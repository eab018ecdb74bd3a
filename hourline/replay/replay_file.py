"""The work of ``hourline replay``."""

from collections.abc import Mapping
from types import MappingProxyType

from hourline.replay.interrupt import interruptible
from hourline.replay.pacing import choose_pace
from hourline.replay.producer import Compression
from hourline.replay.progress_bar import progress_bar
from hourline.replay.sending import Delivered, replay
from hourline_core.formats.files.data_file import Format
from hourline_core.formats.files.reading import open_recording
from hourline_core.model.fields import Field


def replay_file(
    name: str,
    *,
    bootstrap: str,
    topic: str,
    client_options: Mapping[str, str],
    format: Format | None = None,
    order_by: str | None = None,
    rate: float | None = None,
    speed: float | None = None,
    key: str | None = None,
    partition: str | int | None = None,
    compression: Compression = "lz4",
    null_text: str | None = None,
    fields: Mapping[str, Field] = MappingProxyType({}),
    avro_schema: str | None = None,
    transactional: bool = False,
) -> Delivered:
    """Send the records of the file ``name`` to ``topic``, with a progress bar on stderr.

    ``rate`` is in events per second. ``speed`` is a factor on the times in the ``order_by`` column. Without both, the
    replay is as fast as possible. Call this in the main thread, for Ctrl-C. For the file and its errors, see
    ``open_recording``; for the delivery, ``replay``.
    """
    pace = choose_pace(rate, speed, order_by)
    with (
        open_recording(
            name,
            format=format,
            order_by=order_by,
            key=key,
            partition=partition,
            null_text=null_text,
            fields=fields,
            avro_schema=avro_schema,
        ) as recording,
        progress_bar(topic, recording.total) as on_progress,
        interruptible() as stopped,
    ):
        return replay(
            recording.records,
            bootstrap=bootstrap,
            topic=topic,
            client_options=client_options,
            pace=pace,
            compression=compression,
            transactional=transactional,
            stopped=stopped,
            on_progress=on_progress,
        )
