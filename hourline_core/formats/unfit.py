"""A value that a declared type does not take."""

_LONGEST = 80


class UnfitError(Exception):
    """A value, or any value of a schema's type, is not one of the declared type.

    ``path`` is that of the value, such as ``items[3].price``, as far as it is known.
    """

    def __init__(self, got: str, want: str, path: str = "") -> None:
        super().__init__(got, want, path)
        self.got, self.want, self.path = got, want, path

    def within(self, step: str) -> "UnfitError":
        """The same, of the value that has it behind ``step``."""
        return UnfitError(self.got, self.want, step + self.path)

    def reason(self) -> str:
        """Why a record is rejected: ``field 'items[3].price': got 5, want string``."""
        return f"field '{self.path}': got {self.got}, want {self.want}"


def shorten(text: str) -> str:
    """``text`` with 80 characters at most."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
