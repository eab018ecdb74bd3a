"""The archived events of one input of a join that a task needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from speed_layer.derived.read_events import read_events
from speed_layer.joins.plan import SidePlan
from speed_layer.joins.step import SideStep


class Side(Protocol):
    """The events of one input that a micro-batch may need, under Hourline's names, in tables of a bounded size."""

    def new(self) -> Iterator[pa.Table]:
        """Those of the new sequences."""

    def near(self) -> Iterator[pa.Table]:
        """Earlier ones, with all that may have a partner among the new ones of the other input, or that may be joined
        without one now.
        """

    def far(self) -> Iterator[pa.Table]:
        """Earlier ones, with all that may be partners of ``near`` ones of the other input, if that is an outer side."""

    def identities(self) -> Iterator[pa.Table]:
        """New and earlier ones, with all that may have the id of one of these."""


@dataclass(frozen=True)
class ArchivedSide:
    """A ``Side`` in data files. Reading raises OSError and ArrowInvalid."""

    plan: SidePlan
    step: SideStep

    def new(self) -> Iterator[pa.Table]:
        return read_events(self.plan, self.step.new, self.plan.columns, self.step.after, self.step.up_to)

    def near(self) -> Iterator[pa.Table]:
        return read_events(self.plan, self.step.near, self.plan.columns, 0, self.step.after)

    def far(self) -> Iterator[pa.Table]:
        return read_events(self.plan, self.step.far, self.plan.columns, 0, self.step.after)

    def identities(self) -> Iterator[pa.Table]:
        return read_events(self.plan, self.step.identities, self.plan.identity_columns, 0, self.step.up_to)
