"""A sink: where the results of a metric are sent, as they change."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import pydantic
from pydantic import AfterValidator, BeforeValidator, StringConstraints, WithJsonSchema, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.names import MetricName, SourceName
from hourline_core.model.postgres_url import check_postgres_url
from hourline_core.model.times import duration_text, parse_duration
from hourline_core.model.topics import check_topic_name
from hourline_core.model.urls import check_http_url

Target = Literal["topic", "webhook", "command", "postgresql"]
TARGETS: tuple[Target, ...] = ("topic", "webhook", "command", "postgresql")
"""The keys that say where results are sent. A sink has one of them."""
SentFormat = Literal["json", "avro", "protobuf", "json_schema"]
WITH_REGISTRY: tuple[SentFormat, ...] = ("avro", "protobuf", "json_schema")
"""The formats whose schemas a sink registers."""
SENT_COLUMNS = ("window_start", "window_end", "state", "token", "revision")
"""What a sent result has beside the dimensions and measures of its metric."""

_EVERY = "every "
_SHORTEST = timedelta(seconds=1)
_ALLOWED_EMIT = "allowed are batch, closed, final, and a time such as every 10s"


def _emit(value: object) -> str:
    if value in ("batch", "closed", "final"):
        return str(value)
    if not (isinstance(value, str) and value.startswith(_EVERY)):
        raise refuse(f"got {describe(value)}, {_ALLOWED_EMIT}")
    interval = parse_duration(value.removeprefix(_EVERY))
    if interval < _SHORTEST:
        raise refuse(f"got {describe(value)}, allowed is at least every 1s")
    return f"{_EVERY}{duration_text(interval)}"


Emit = Annotated[str, BeforeValidator(_emit), WithJsonSchema({"type": "string", "examples": ["batch", "every 10s"]})]


def _headers(given: dict[str, str]) -> dict[str, str]:
    """Values are never shown, since they may be secrets."""
    for name, value in given.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise refuse(f"got the name {describe(name)}, which no header may have")
        if not re.fullmatch(r"[\x20-\x7e\t]*", value):
            raise refuse(
                "got a value with a line break or another character that no header may have, allowed is ASCII", name
            )
    return given


Command = Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], pydantic.Field(min_length=1)]


class Webhook(Declaration):
    """An address that each changed result is posted to. `webhook: URL` is short for `webhook: {url: URL}`."""

    url: Annotated[str, AfterValidator(check_http_url)]
    """The address: `https://HOST/PATH` or `http://HOST:PORT/PATH`."""

    headers: Annotated[dict[str, str], AfterValidator(_headers)] = pydantic.Field(default={}, repr=False)
    """Headers of each request, such as `Authorization`. Keep secrets in the environment: `${NAME}`."""

    @classmethod
    def from_short_form(cls, value: Any) -> Any:
        """Read the short form."""
        return {"url": value} if isinstance(value, str) else value


WebhookForm = Annotated[Webhook, BeforeValidator(Webhook.from_short_form, json_schema_input_type=str | Webhook)]


class Sink(Declaration):
    """One sink, as declared in ``sinks/NAME.yaml``."""

    name: SourceName
    """The sink's name. If left out, the name of the file without its ending."""

    description: str | None = None
    """A description for people."""

    metric: MetricName
    """The metric whose results are sent."""

    topic: Annotated[str, AfterValidator(check_topic_name)] | None = None
    """A topic of the project's Kafka. It is compacted, and nobody else writes to it. It is created if it is missing."""

    format: SentFormat = "json"
    """The format of the records of a topic. `avro`, `protobuf` and `json_schema` (JSON with a JSON Schema): by schemas
    that the sink registers in the project's schema registry, as the subjects `<topic>-key` and `<topic>-value`.
    """

    partitions: Annotated[int, pydantic.Field(ge=1)] = 1
    """The number of partitions of a topic that is created."""

    webhook: WebhookForm | None = None
    """An address that each changed result is posted to, as JSON."""

    command: Command | None = None
    """A command and its arguments. It runs in the project's folder for each changed result, with the result as JSON on
    its standard input.
    """

    postgresql: Annotated[str, AfterValidator(check_postgres_url)] | None = None
    """A table of PostgreSQL, `postgresql://USER@HOST:PORT/DATABASE?table=SCHEMA.NAME`. It is created if it is missing.
    """

    emit: Emit = "batch"
    """When results are sent. `batch`: after each micro-batch and publication. `every 10s`: the same, but at most every
    10 seconds. `closed`: once their hours have closed, and then each correction. `final`: once their window is final,
    and each correction once it is final again.
    """

    @property
    def target(self) -> Target:
        """The key that says where results are sent."""
        return next(name for name in TARGETS if getattr(self, name) is not None)

    @property
    def place(self) -> str:
        """Where results are sent, for people. It has no secret."""
        match self.target:
            case "webhook" if self.webhook:
                parts = urlsplit(self.webhook.url)  # Its path may be a secret, too.
                return f"{parts.scheme}://{parts.netloc}"
            case "command" if self.command:
                return self.command[0]
        return str(getattr(self, self.target))

    @property
    def interval(self) -> timedelta:
        """The minimum time between two rounds."""
        return parse_duration(self.emit.removeprefix(_EVERY)) if self.emit.startswith(_EVERY) else timedelta(0)

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        given = [name for name in TARGETS if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise refuse(f"got {got} of {', '.join(TARGETS)}, allowed is one of them", *given[1:2])
        for name in ("partitions", "format"):
            if name in self.model_fields_set and self.topic is None:
                raise refuse("got it without a topic, allowed is it with a topic", name)
        return self
