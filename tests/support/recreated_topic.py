"""A topic that is deleted, and another one of that name."""

import time

from confluent_kafka.admin import AdminClient

from hourline_core.runtime.topics import ensure_topic


def recreate_topic(kafka: str, topic: str, partitions: int) -> str:
    """Delete a topic, and make another one of that name. Returns its id."""
    delete_topic(kafka, topic)
    return ensure_topic(kafka, topic, partitions, {})


def delete_topic(kafka: str, topic: str) -> None:
    """Delete a topic, and return when it is gone."""
    client = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    client.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 120
    while topic in client.list_topics(timeout=600).topics:
        assert time.monotonic() < deadline, f"{topic} is still there"
