"""A metric over another metric: fewer of its dimensions, some of its measures, other windows.

It has no tables of its own. A question merges the states of the other metric's hours, never its finished values. So a
mean of means is the mean of all events, and a distinct count counts each value once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator, model_validator

from hourline_core.errors import did_you_mean
from hourline_core.model.base import Declaration, refuse
from hourline_core.model.branches import Where
from hourline_core.model.measure import Measure
from hourline_core.model.metric import WINDOW_COLUMNS, Metric
from hourline_core.model.metric_window import MetricWindow, WindowForm
from hourline_core.model.names import ColumnName, MetricName
from hourline_core.model.session_window import SessionWindow
from hourline_core.model.times import duration_text


def _each_once(names: list[str]) -> list[str]:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise refuse(f"got '{name}' again, allowed is each name once", str(place))
    return names


class Rollup(Declaration):
    """A metric over another metric, as declared in `metrics/NAME.yaml` with the key `from`.

    A query merges the results of the other metric. The metric has no tables, no recompute and no audit of its own. An
    hour has the same state as in the other metric.
    """

    name: MetricName
    """The metric's name. If left out, the name of the file without its ending."""

    from_: MetricName = pydantic.Field(alias="from")
    """The name of the other metric. It may itself be over another metric."""

    description: str | None = None
    """A description for people."""

    dimensions: Annotated[list[ColumnName], AfterValidator(_each_once)] | None = None
    """The dimensions to keep; the others are rolled up. If left out, all."""

    measures: Annotated[list[ColumnName], pydantic.Field(min_length=1), AfterValidator(_each_once)] | None = None
    """The measures to keep. If left out, all."""

    window: WindowForm | None = None
    """The period that a result covers, as in any metric. The default is the window of the other metric."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_audit(cls, value: Any) -> Any:
        for key in ("expectations", "history"):
            if isinstance(value, dict) and key in value:
                raise refuse(
                    "got it in a metric over another one, which has no audit: declare it in the metric with `source` "
                    f"that '{value.get('from')}' leads to",
                    key,
                )
        return value


@dataclass(frozen=True)
class ResolvedRollup:
    """A rollup as the metric that it is, and the metric that has its tables."""

    metric: Metric
    base: str
    """The name of the metric whose states it merges."""

    def over(self, served: Metric) -> Metric:
        """The same over the declaration of ``base`` that is served, which may lack some of its names and its panes."""
        return served.model_copy(
            update={
                "name": self.metric.name,
                "description": self.metric.description,
                "window": self.metric.window if _are_made_of(self.metric.window, served.window) else served.window,
                "dimensions": _keep(self.metric.dimensions, served.dimensions),
                "measures": _keep_measures(self.metric.measures, served.measures),
            }
        )


def resolve_rollups(
    rollups: Mapping[str, Rollup], metrics: Mapping[str, Metric], where: Where, unread: Collection[str] = ()
) -> tuple[dict[str, ResolvedRollup], list[str]]:
    """Each rollup as a metric, and one line for each mistake.

    ``where`` gives the place of a declaration. ``unread`` are metrics that exist, but whose own declaration has a
    mistake: nothing is said of what is over them.
    """
    resolved: dict[str, ResolvedRollup] = {}
    mistakes: list[str] = []
    below = {name: ResolvedRollup(metric, name) for name, metric in metrics.items()}
    waiting = dict(rollups)
    while ready := [rollup for rollup in waiting.values() if rollup.from_ in below]:
        for rollup in ready:
            del waiting[rollup.name]
            parent = below[rollup.from_]
            mistakes += _absent_names(rollup, parent.metric, where)
            mistakes += _unfit_window(rollup, metrics[parent.base], where)
            narrowed = _narrow(parent.metric, rollup)
            mistakes += _clashes_with_window(narrowed, where)
            resolved[rollup.name] = below[rollup.name] = ResolvedRollup(narrowed, parent.base)
    for rollup in waiting.values():
        path = _path(rollup, waiting)
        place = where("metric", rollup.name, ("from",))
        if path[-1] == rollup.name:
            mistakes.append(
                f"{place}: from: got '{rollup.from_}', which is over this metric itself ({' → '.join(path)}), "
                "allowed is a metric that leads to a source"
            )
        elif rollup.from_ not in (*rollups, *unread):
            hint = did_you_mean(rollup.from_, [*metrics, *rollups.keys() - {rollup.name}])
            mistakes.append(f"{place}: from: got '{rollup.from_}', which is no metric of this project{hint}")
    return resolved, mistakes


def _absent_names(rollup: Rollup, parent: Metric, where: Where) -> Iterator[str]:
    """A mistake for each name that the other metric does not have."""
    for key, names, there in (
        ("dimensions", rollup.dimensions, parent.dimensions),
        ("measures", rollup.measures, parent.measures),
    ):
        for name in names or ():
            if name not in there:
                place = where("metric", rollup.name, (key, name))
                hint = did_you_mean(name, there)
                yield f"{place}: {key}: got '{name}', which '{rollup.from_}' does not have{hint}"
    for name in rollup.measures or ():
        operands = parent.measures[name].operands if name in parent.measures else []
        left_out = dict.fromkeys(operand for operand in operands if operand not in (rollup.measures or ()))
        if left_out:
            place, others = where("metric", rollup.name, ("measures", name)), " and ".join(left_out)
            yield f"{place}: measures: got '{name}', which needs measures that are left out: add {others}"


def _unfit_window(rollup: Rollup, base: Metric, where: Where) -> Iterator[str]:
    """A mistake if the windows are not made of what ``base`` has."""
    if rollup.window is None or _are_made_of(rollup.window, base.window):
        return
    place = where("metric", rollup.name, ("window",))
    if isinstance(rollup.window, SessionWindow) and not isinstance(base.window, SessionWindow):
        yield (
            f"{place}: window: got '{rollup.window}', but '{base.name}' does not keep when sessions begin and end: "
            "allowed are sessions over a metric that has sessions itself"
        )
    else:
        yield (
            f"{place}: window: got '{rollup.window}', which has panes of {duration_text(rollup.window.pane)}, allowed "
            f"are windows made of the panes of '{base.name}', which have {duration_text(base.window.pane)}"
        )


def _are_made_of(windows: MetricWindow | SessionWindow, kept: MetricWindow | SessionWindow) -> bool:
    """Whether ``windows`` can be merged from what a metric with the windows ``kept`` has stored."""
    has_bounds = isinstance(kept, SessionWindow) or not isinstance(windows, SessionWindow)
    return has_bounds and not windows.pane % kept.pane


def _clashes_with_window(metric: Metric, where: Where) -> Iterator[str]:
    """A mistake for each kept name that is a column of its windows."""
    if not metric.window.is_hour:
        for name in WINDOW_COLUMNS:
            if name in (*metric.dimensions, *metric.measures):
                place = where("metric", metric.name, ("window",))
                yield f"{place}: window: got windows with '{name}', which names the window of a result: leave it out"


def _narrow(parent: Metric, rollup: Rollup) -> Metric:
    return parent.model_copy(
        update={
            "name": rollup.name,
            "description": rollup.description,
            "dimensions": _keep(rollup.dimensions, parent.dimensions),
            "measures": _keep_measures(rollup.measures, parent.measures),
            "window": rollup.window or parent.window,
        }
    )


def _keep(names: Iterable[str] | None, there: Mapping[str, Any]) -> dict[str, Any]:
    return dict(there) if names is None else {name: there[name] for name in names if name in there}


def _keep_measures(names: Iterable[str] | None, there: Mapping[str, Measure]) -> dict[str, Measure]:
    """Without the ratios and rates of measures that are left out."""
    kept: dict[str, Measure] = _keep(names, there)
    return {name: measure for name, measure in kept.items() if kept.keys() >= set(measure.operands)}


def _path(rollup: Rollup, waiting: Mapping[str, Rollup]) -> list[str]:
    """The names from ``rollup`` to what is below it, until one of them comes again or is not ``waiting``."""
    path = [rollup.name]
    while path[-1] in waiting and path[-1] not in path[:-1]:
        path.append(waiting[path[-1]].from_)
    return path
