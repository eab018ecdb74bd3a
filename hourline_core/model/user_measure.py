"""User-defined measures: Python classes in the project's folders ``measures`` and ``folds``, which declarations hold as
text.

So the text is a part of a metric's identity, and is stored with its tables. Nothing here runs it: that is done in
``hourline_core.aggregates``.
"""

import ast
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from hourline_core.model.base import Declaration
from hourline_core.model.measure_text import is_word_of_measures
from hourline_core.model.names import is_column_name

UserMeasureKind = Literal["user_defined", "fold"]
FOLDERS: Mapping[UserMeasureKind, str] = {"user_defined": "measures", "fold": "folds"}
"""By kind of measure, the folder of its classes."""


class UserMeasure(Declaration):
    """A measure of your own: a class in `measures/NAME.py`, which metrics use as `NAME(x)` or `NAME(x, y)`. The class
    has the name of the file in CamelCase: `WeightedMean` in `measures/weighted_mean.py`.

    It has four methods. `start()` returns the state without any event. `add(state, x)` returns the state with one more
    event. `merge(state, state)` combines two states. `finish(state)` returns the value. The attributes `state_type` and
    `value_type` are the pyarrow types of state and value. A state may be nested. When it is read from a table, it is a
    plain value, dict or list. A value is a number, text, boolean, date or time.

    `hourline check` tests the class on generated events, or on its `examples`: a list of tuples, each with the
    arguments for one event. The methods must not store anything between two calls. The file may import installed
    packages, but no other file of the project.

    If the order of the events matters, the class is a keyed fold in `folds/NAME.py`. It has `start()`,
    `step(state, at, x)` and `finish(state)`. `step` returns the state after one more event with the event time `at`. It
    gets the events of a group in the order of their event times. The attribute `most`, up to 100,000, is the maximum
    number of events per group. The tables keep the first ones. The value of a group with more events is null. A class
    may have `done(state)`. When it returns true, the fold ignores all further events, and the group has a value even if
    it has more than `most` events.
    """

    kind: UserMeasureKind = "user_defined"
    """`user_defined` in `measures`, `fold` in `folds`."""

    name: str
    """The name of the file without its ending."""

    code: str
    """The text of the file. If it changes, the declaration of each metric that uses it changes, too."""

    @property
    def file(self) -> str:
        """The file, relative to the project's folder."""
        return f"{FOLDERS[self.kind]}/{self.name}.py"

    @property
    def class_name(self) -> str:
        """``WeightedMean`` for ``weighted_mean``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def of_file(cls, file: str, code: str) -> "UserMeasure":
        """The class in ``file`` (as the property ``file``), whose text is ``code``."""
        path = PurePosixPath(file)
        return cls(kind=_KINDS[path.parent.name], name=path.stem, code=code)


_KINDS = {folder: kind for kind, folder in FOLDERS.items()}


def read_user_measures(root: Path, mistakes: list[str]) -> Mapping[str, UserMeasure]:
    """The files ``measures/*.py`` and ``folds/*.py`` below ``root`` by name. A line is added to ``mistakes`` for each
    that is no measure.

    Those are among the result, too, since the metrics that use them have no mistake.
    """
    found: dict[str, UserMeasure] = {}
    for path in sorted(path for folder in FOLDERS.values() for path in (root / folder).glob("*.py")):
        file = path.relative_to(root).as_posix()
        try:
            measure = UserMeasure.of_file(file, path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            mistakes.append(f"{file}:1: the file cannot be read ({error})")
            continue
        if earlier := found.get(measure.name):
            mistakes.append(
                f"{file}:1: got the name of {earlier.file} again, allowed is each name once: rename the file"
            )
            continue
        found[measure.name] = measure
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
