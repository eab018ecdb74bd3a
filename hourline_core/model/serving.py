"""The server of HTTP and Arrow Flight SQL: ``serve:`` of the settings."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import pydantic

from hourline_core.model.base import Declaration, refuse
from hourline_core.model.times import Duration

LOOPBACK = ("127.0.0.1", "localhost", "::1")

_Count = Annotated[int, pydantic.Field(ge=1)]


class ServeSettings(Declaration):
    """The server that `hourline serve` runs: its address, access and limits."""

    host: Annotated[str, pydantic.Field(min_length=1)] = "127.0.0.1"
    """The address to listen on. An address that other machines can reach requires tokens and TLS."""

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    """The port. If left out, a free port is chosen. `--port` overrides it."""

    flight_port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    """The port of Arrow Flight SQL, by which BI tools and notebooks send free SQL. If left out, it is not served. It
    requires `sql: true`.
    """

    tokens: Path | None = None
    """A file with `reader TOKEN` or `admin TOKEN` in each line, relative to the project. The environment variables
    `HOURLINE_READER_TOKEN` and `HOURLINE_ADMIN_TOKEN` add one token each.
    """

    certificate: Path | None = None
    """A file with the certificate, or chain, for TLS as PEM, relative to the project."""

    key: Path | None = None
    """A file with the certificate's private key as PEM, relative to the project."""

    sql: bool = False
    """Whether admins may send free SQL."""

    rows: _Count = 100_000
    """The maximum number of rows in one answer."""

    bytes: _Count = 16_000_000
    """The maximum number of bytes in one answer."""

    timeout: Duration = timedelta(seconds=30)
    """The maximum time that a query waits for its turn, and the maximum time that it then computes."""

    concurrent: _Count = 4
    """The maximum number of queries that are computed at once."""

    per_client: _Count = 1
    """The maximum number of queries of one client that are computed at once. Its other queries wait. A client is a
    token, or an address.
    """

    @pydantic.model_validator(mode="after")
    def _check_certificate_and_key(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise refuse(
                "got one of certificate and key, allowed are both or none", "key" if self.key else "certificate"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _check_flight(self) -> Self:
        if self.flight_port is not None and not self.sql:
            raise refuse("Arrow Flight SQL is free SQL, which is off; add `sql: true`", "flight_port")
        return self
