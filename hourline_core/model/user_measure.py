"""User-defined measures: Python classes in the project's folder ``measures``, which declarations hold as text.

So the text is a part of a metric's identity, and is stored with its tables. Nothing here runs it: that is done in
``hourline_core.aggregates.user_class``.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

from hourline_core.model.base import Declaration
from hourline_core.model.measure_text import is_word_of_measures
from hourline_core.model.names import is_column_name

FOLDER = "measures"


class UserMeasure(Declaration):
    """A measure of your own: a class in `measures/NAME.py`, which metrics use as `NAME(x)` or `NAME(x, y)`. The name of
    the class is that of the file in capitalised words: `WeightedMean` in `measures/weighted_mean.py`.

    It has the methods `start()`, which gives the state of no event; `add(state, x)`, which gives the state with one
    more event; `merge(state, state)`, which gives the state of the events of both; and `finish(state)`, which gives the
    value. Its attributes `state_type` and `value_type` are the types of both in pyarrow. A state may be nested, and
    comes back from the tables as a plain value, dict or list. A value is a number, text, boolean, date or time.

    `hourline check` tries the class on generated events, or on its `examples`: a list of tuples, each with the
    arguments for one event. The methods keep nothing between two calls. The file imports what is installed, and no
    other file of the project.
    """

    name: str
    """The name of the file without its ending."""

    code: str
    """The text of the file. A changed text is a changed declaration of each metric that uses it."""

    @property
    def file(self) -> str:
        """The file, relative to the project's folder."""
        return f"{FOLDER}/{self.name}.py"

    @property
    def class_name(self) -> str:
        """``WeightedMean`` for ``weighted_mean``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def read_user_measures(root: Path, mistakes: list[str]) -> Mapping[str, UserMeasure]:
    """The files ``measures/*.py`` below ``root`` by name. A line is added to ``mistakes`` for each that is no measure.

    Those are among the result, too, since the metrics that use them have no mistake.
    """
    found: dict[str, UserMeasure] = {}
    for file in sorted((root / FOLDER).glob("*.py")):
        try:
            measure = UserMeasure(name=file.stem, code=file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            mistakes.append(f"{FOLDER}/{file.name}:1: the file cannot be read ({error})")
            continue
        found[file.stem] = measure
        if mistake := _find_mistake(measure):
            mistakes.append(f"{measure.file}:{mistake}")
    return found


def _find_mistake(measure: UserMeasure) -> str | None:
    """The line and what is wrong there. None: nothing is, as far as the text alone says."""
    if not is_column_name(measure.name):
        return f"1: got the name '{measure.name}', allowed are lower-case letters, digits and _: rename the file"
    if is_word_of_measures(measure.name):
        return f"1: got the name '{measure.name}', which is a word for another measure: rename the file"
    try:
        tree = ast.parse(measure.code)
    except (SyntaxError, ValueError) as error:
        return f"{getattr(error, 'lineno', None) or 1}: this is not Python ({getattr(error, 'msg', error)})"
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if measure.class_name not in classes:
        there = f"it has {', '.join(classes)}" if classes else "it has none"
        return f"1: allowed is a file with the class {measure.class_name}, named as the file is; {there}"
    return None
