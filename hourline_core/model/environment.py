"""``${NAME}`` and ``${NAME:default}`` in the text of a declaration."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\})?", re.ASCII)


class SubstitutionError(ValueError):
    """A reference cannot be replaced; the text says why."""


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """Replace ``${NAME}`` and ``${NAME:default}``. ``$${`` stands for a plain ``${``. Values are not searched again.

    Raises SubstitutionError for a missing variable without a default, and for a ``${`` without a name and ``}``.
    """

    def value(reference: re.Match[str]) -> str:
        if reference[0] == "$${":
            return "${"
        name, default = reference[1], reference[2]
        if name is None:
            got = text[reference.start() : reference.start() + 20]
            raise SubstitutionError(
                f"got '{got}', allowed are ${{NAME}} and ${{NAME:default}}; write $${{ for a plain ${{"
            )
        if name in environ:
            return environ[name]
        if default is None:
            raise SubstitutionError(
                f"the environment has no variable {name}: set it, or give a default, ${{{name}:default}}"
            )
        return default

    return _REFERENCE.sub(value, text)
