"""Decides what a look-up does about a damaged table: it fails, or goes on without the views that need it."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Protocol

from hourline_core.errors import TableError
from hourline_core.model import Metric


class OnDamage(Protocol):
    """Decides what a TableError does to a look-up."""

    @property
    def unreadable(self) -> Mapping[str, str]:
        """By view, why it cannot be read."""
        ...

    def looking_up(self, *views: str) -> AbstractContextManager[None]:
        """A block that looks up the tables of ``views``."""
        ...


class Strict:
    """The first damaged table ends the look-up: blocks raise TableError."""

    unreadable: Mapping[str, str] = MappingProxyType({})

    def looking_up(self, *views: str) -> AbstractContextManager[None]:
        """A block that raises its errors."""
        return nullcontext()


class Degraded:
    """Damage is noted for the views that need the table, and the look-up goes on with the others."""

    def __init__(self) -> None:
        self.unreadable: dict[str, str] = {}

    @contextmanager
    def looking_up(self, *views: str) -> Iterator[None]:
        """A block that ends at a TableError. ``views`` are unreadable from then on."""
        try:
            yield
        except TableError as error:
            for view in views:
                self.unreadable.setdefault(view, str(error))


def views_of(metric: Metric) -> list[str]:
    """The views of a metric."""
    return [*metric.views, f"{metric.name}_staged"]
