"""The keys of a declaration that a statement means."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hourline_core.model.source import Source
from hourline_core.model.sql_form.expressions import read_condition, same_expression
from hourline_core.model.sql_form.from_clause import split_from
from hourline_core.model.sql_form.select_items import SelectItem, is_bound, read_item
from hourline_core.model.sql_form.statement import Part, SqlMistake, Statement
from hourline_core.model.sql_form.time_windows import (
    Session,
    TimeWindow,
    is_window_function,
    read_window_clause,
    read_window_function,
    without_spaces,
)
from hourline_core.model.yaml_files import KeyPath


class StatementKeys:
    """Reads the keys that a statement means. It continues after a mistake, to list those of all parts.

    ``values`` has the keys. ``lines`` has the line of each of their items in the statement, counted from 1.
    """

    def __init__(self, sql: str, sources: Mapping[str, Source], of_user: Collection[str] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.lines: dict[KeyPath, int] = {}
        self.mistakes: list[SqlMistake] = []
        self._sources = sources
        self._of_user = of_user
        self._times: frozenset[str] = frozenset()
        self._fields: frozenset[str] = frozenset()
        self._window: TimeWindow | Session | None = None
        with self._listing_mistakes():
            self._read(Statement.parse(sql))

    @property
    def has_window(self) -> bool:
        """Whether the statement says the window. One of an hour has no key in ``values``."""
        return self._window is not None

    @contextmanager
    def _listing_mistakes(self) -> Iterator[None]:
        try:
            yield
        except SqlMistake as mistake:
            self.mistakes.append(mistake)

    def _read(self, statement: Statement) -> None:
        with self._listing_mistakes():
            self._read_source(statement.source)
        if statement.window:
            with self._listing_mistakes():
                self._add_window(statement.window, read_window_clause(statement.window))
        if statement.where:
            with self._listing_mistakes():
                self._add(("where",), statement.where, read_condition(statement.where, self._of_user))
        items = self._read_items(statement.select)
        found = len(self.mistakes)
        groups = self._read_groups(statement.group_by, items) if statement.group_by else []
        # Which items are grouped is not known after a mistake in GROUP BY.
        unknown = len(self.mistakes) > found
        for item in filter(None, items):
            with self._listing_mistakes():
                self._add_item(item, grouped=unknown or item in groups)
        if not self.mistakes and "measures" not in self.values:
            self.mistakes.append(
                SqlMistake(statement.select.line, "got no aggregate, allowed is one or more, such as COUNT(*) AS n")
            )

    def _read_source(self, part: Part) -> None:
        name, function = split_from(part)
        source = self._sources.get(name.tokens[0].text)
        if source is not None:
            self._times = frozenset({"event_time", without_spaces(source.event_time.expression)})
            self._fields = source.field_names
        self._add(("source",), name, name.tokens[0].text)
        if function:
            self._add_window(function, read_window_function(function, self._times))

    def _read_items(self, select: Part) -> list[SelectItem | None]:
        """The items of SELECT. None is one with a mistake: GROUP BY counts it, too."""
        items: list[SelectItem | None] = []
        for part in select.split():
            items.append(None)
            with self._listing_mistakes():
                items[-1] = read_item(part, self._fields, self._of_user)
        return items

    def _read_groups(self, group_by: Part, items: Sequence[SelectItem | None]) -> list[SelectItem | None]:
        """The items of SELECT that GROUP BY names, by their place, their name or their expression."""
        groups = []
        for part in group_by.split():
            with self._listing_mistakes():
                if is_window_function(part):
                    self._add_window(part, read_window_function(part, self._times))
                elif not is_bound(part, self._fields):
                    groups.append(_find_item(part, items, self._fields))
        return groups

    def _add_item(self, item: SelectItem, grouped: bool) -> None:
        part = item.expression
        if item.window:
            if is_window_function(part):
                self._add_window(part, read_window_function(part, self._times))
        elif item.name is None:
            raise SqlMistake(part.line, f"got '{part.text}' without a name: write {part.text} AS a_name")
        elif any((key, item.name) in self.lines for key in ("dimensions", "measures")):
            raise SqlMistake(part.line, f"got the name '{item.name}' again, allowed is each name once")
        elif item.measure:
            self._add(("measures", item.name), part, item.measure)
        elif grouped:
            self._add(("dimensions", item.name), part, part.text)
        else:
            raise SqlMistake(
                part.line, f"got '{part.text}' outside an aggregate and GROUP BY: add it to GROUP BY, or aggregate it"
            )

    def _add_window(self, part: Part, window: TimeWindow | Session) -> None:
        if self._window not in (None, window):
            raise SqlMistake(part.line, f"got '{part.text}' beside another window, allowed is one for a metric")
        self._window = window
        if (key := window.as_key()) is not None:
            self._add(("window",), part, key)

    def _add(self, path: KeyPath, part: Part, value: Any) -> None:
        self.lines.setdefault(path[:1], part.line)
        self.lines[path] = part.line
        if len(path) == 1:
            self.values[path[0]] = value
        else:
            self.values.setdefault(path[0], {})[path[1]] = value


def _find_item(group: Part, items: Sequence[SelectItem | None], fields: frozenset[str]) -> SelectItem | None:
    """The item of SELECT that an item of GROUP BY names. None if that item has a mistake itself."""
    if (word := group.tokens[0].text.upper()) in ("ROLLUP", "CUBE", "GROUPING SETS"):
        raise SqlMistake(group.line, f"got {word}, but a metric has one grouping: declare a metric for each")
    if group.text.upper() == "ALL":
        raise SqlMistake(group.line, "got GROUP BY ALL, allowed are the items of SELECT by their names or places")
    if group.text.isdigit():
        if not 1 <= int(group.text) <= len(items):
            raise SqlMistake(group.line, f"got '{group.text}' in GROUP BY, allowed is a place from 1 to {len(items)}")
        found = items[int(group.text) - 1]
    else:
        found = _find_by_name(group, items, fields)
    if found is not None and found.measure:
        raise SqlMistake(group.line, f"got '{group.text}', an aggregate, in GROUP BY: leave it out")
    return found


def _find_by_name(group: Part, items: Sequence[SelectItem | None], fields: frozenset[str]) -> SelectItem | None:
    name = group.tokens[0].text.lower() if len(group.tokens) == 1 else None
    for item in items:
        if item and name is not None and (item.name or "").lower() == name:
            if name in fields and not same_expression(item.expression, group):
                raise SqlMistake(
                    group.line,
                    f"got '{group.text}' in GROUP BY, which is a field of the source and the name of "
                    f"'{item.expression.text}': give that another name",
                )
            return item
    for item in items:
        if item and item.is_dimension and same_expression(item.expression, group):
            return item
    if None in items:
        return None
    raise SqlMistake(group.line, f"got '{group.text}' in GROUP BY, which SELECT does not have: add it to SELECT")
