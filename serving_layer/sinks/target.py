"""What a sink sends results to."""

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from hourline_core.model import Metric, Project, Sink
from serving_layer.sinks.result import Result
from serving_layer.sinks.sent_results import SentResults


class Target(Protocol):
    """A connection to where results are sent. Each method raises SinkError if that does not do what it should."""

    results_at_once: int
    """The maximum number of results that ``send`` gets at once."""

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        """Send these results of the answer with ``token``, each with ``revision``, and keep them in ``sent``. Where a
        process dies in between, a topic is read again. Other targets get a result again, with a higher revision.
        """

    def end_round(self, first_revision: int) -> None:
        """All results were compared, and those that differ were sent, with ``first_revision`` or a greater one."""

    def close(self) -> None:
        """End the connection, and what it runs. Also from another thread."""


OpenTarget = Callable[[Project, Sink, Metric, pa.Schema, SentResults], Target]
"""As ``open_target`` does."""


def open_target(project: Project, sink: Sink, metric: Metric, columns: pa.Schema, sent: SentResults) -> Target:
    """The target of a sink. ``columns`` are those of the view of ``metric``. It brings ``sent`` up to date: with the
    records of a topic, or with nothing if it is another target than before. Raises SinkError, BrokerError and
    RegistryError.
    """
    if sink.topic is not None:
        from serving_layer.sinks.kafka_topic import KafkaTopic
        from serving_layer.sinks.record_format import record_format

        return KafkaTopic(project, sink, record_format(project, sink, metric, columns), sent)
    if sink.webhook is not None:
        from serving_layer.sinks.webhook import WebhookTarget

        return WebhookTarget(sink, sent)
    if sink.command is not None:
        from serving_layer.sinks.command import CommandTarget

        return CommandTarget(project, sink, sent)
    from serving_layer.sinks.postgres_table import PostgresTable

    return PostgresTable(sink, metric, columns, sent)
