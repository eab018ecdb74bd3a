"""The client options that a project may pass on to Kafka."""

from typing import Annotated

from pydantic import AfterValidator

from hourline_core.errors import did_you_mean
from hourline_core.model.base import describe, refuse

# The names are librdkafka's. Each option also exists in Spark's Java client, which the speed layer reads with.
# Options that change the meaning of a read or a delivery (acks, isolation, offsets) are set by Hourline alone.
ALLOWED_OPTIONS = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.ms",
        "sasl.mechanism",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
    }
)


def _option(name: str) -> str:
    if name not in ALLOWED_OPTIONS:
        raise refuse(
            f"got the option {describe(name)}, which Hourline does not pass on{did_you_mean(name, ALLOWED_OPTIONS)}"
        )
    return name


KafkaOption = Annotated[str, AfterValidator(_option)]
