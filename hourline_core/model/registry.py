"""The schema registry: ``registry:`` of the settings, and what a decoder needs to ask it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import urlsplit

import pydantic
from pydantic import AfterValidator, model_validator

from hourline_core.model.base import Declaration, describe, refuse
from hourline_core.model.home_folder import expand_home

if TYPE_CHECKING:
    from hourline_core.model.source import Source

_ALLOWED_URL = "allowed is http://HOST:PORT or https://HOST:PORT, or several of them with commas between"


def _url(text: str) -> str:
    for one in text.split(","):
        # Before anything else: a URL with a password is not shown.
        if "@" in one:
            raise refuse(f"got a URL with an '@', {_ALLOWED_URL}; give a user as registry.user and registry.password")
        try:
            parts = urlsplit(one.strip())
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_valid = False
        if not is_valid or parts.query or parts.fragment:
            raise refuse(f"got {describe(text)}, {_ALLOWED_URL}")
    return ",".join(one.strip().rstrip("/") for one in text.split(","))


class RegistrySettings(Declaration):
    """The schema registry that has the schemas of records, by Confluent's HTTP interface."""

    url: Annotated[str, AfterValidator(_url)]
    """Its address: `https://HOST:PORT`, or several of them with commas between, which are asked one after the other."""

    user: Annotated[str, pydantic.Field(min_length=1)] | None = pydantic.Field(default=None, repr=False)
    """The user of HTTP's basic authentication."""

    password: str | None = pydantic.Field(default=None, repr=False)
    """Its password. Keep it in the environment: `${NAME}`."""

    ca: Path | None = None
    """A file with the certificates that its own is verified with, as PEM, relative to the project. Without it, those
    of public authorities.
    """

    @model_validator(mode="after")
    def _check_user(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise refuse("got one of user and password, allowed are both or none", "user" if self.user else "password")
        if self.user is not None and ":" in self.user:
            raise refuse("got a user with a ':', which basic authentication does not allow", "user")
        return self


@dataclass(frozen=True)
class RegistryAccess:
    """What a process needs to ask the registry, and the folder in which it keeps the schemas that it got."""

    url: str
    folder: str
    """Of a workspace. Where it cannot be written, the schemas are kept in memory alone."""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca: str | None = None

    @classmethod
    def of(cls, settings: RegistrySettings, root: Path, workspace: Path) -> Self:
        """That of a project in the folder ``root``, with this absolute ``workspace``. Another registry has other
        schemas by the same ids, so each has a folder of its own.
        """
        name = hashlib.sha256(settings.url.encode()).hexdigest()[:12]
        ca = None if settings.ca is None else str(root.absolute() / expand_home(settings.ca))
        return cls(settings.url, str(workspace / "schemas" / name), settings.user, settings.password, ca)


def find_registry_mistakes(
    sources: "Mapping[str, Source]", settings: RegistrySettings | None, where: Callable[..., str]
) -> Iterator[str]:
    """One line for each source whose records name schemas of a registry, if the settings have none."""
    for name, source in sources.items():
        if source.format.uses_registry and settings is None:
            yield (
                f"{where('source', name, ('format',))}: format: got registry: true, but hourline.yaml has no registry; "
                "declare its address there, `registry: {url: https://HOST:PORT}`"
            )
