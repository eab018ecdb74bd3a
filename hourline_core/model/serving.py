"""The HTTP server: ``serve:`` of the settings."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import pydantic

from hourline_core.model.base import Declaration, refuse
from hourline_core.model.times import Duration

LOOPBACK = ("127.0.0.1", "localhost", "::1")

_Count = Annotated[int, pydantic.Field(ge=1)]


class ServeSettings(Declaration):
    """What `hourline serve` listens on, whom it answers, and how much."""

    host: Annotated[str, pydantic.Field(min_length=1)] = "127.0.0.1"
    """The address to listen on. Beyond this machine only with tokens and TLS."""

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    """The port; a free one, if left out."""

    tokens: Path | None = None
    """A file with a `reader TOKEN` or `admin TOKEN` in each line; relative to the project. `HOURLINE_READER_TOKEN` and
    `HOURLINE_ADMIN_TOKEN` in the environment add one each.
    """

    certificate: Path | None = None
    """The certificate (chain) for TLS, as PEM; relative to the project."""

    key: Path | None = None
    """The certificate's private key, as PEM; relative to the project."""

    sql: bool = False
    """Whether free SQL is answered, to admins."""

    rows: _Count = 100_000
    """At most so many rows in one answer."""

    bytes: _Count = 16_000_000
    """At most so many bytes in one answer."""

    timeout: Duration = timedelta(seconds=30)
    """So long a query may wait for its turn, and so long it may then compute."""

    concurrent: _Count = 4
    """So many queries are computed at once."""

    per_client: _Count = 1
    """So many of them for one client: a token, or an address; its others wait, and leave the rest of the machine to
    others.
    """

    @pydantic.model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise refuse(
                "got one of certificate and key, allowed are both or none", "key" if self.key else "certificate"
            )
        return self
