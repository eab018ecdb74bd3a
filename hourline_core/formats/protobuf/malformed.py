"""Why bytes are no message of the schema."""


class MalformedError(Exception):
    """The bytes are no message of the schema. ``place`` is the byte, counted from 0, if it is known."""

    def __init__(self, what: str, place: int | None = None, path: str = "") -> None:
        super().__init__(what, place, path)
        self.what, self.place, self.path = what, place, path

    def within(self, step: str) -> "MalformedError":
        """The same, of the value that has it behind ``step``."""
        return MalformedError(self.what, self.place, step + self.path)

    def reason(self) -> str:
        """Why a record is rejected: ``invalid Protobuf in 'items[3].price': got … at byte 12``."""
        where = f" in '{self.path.removeprefix('.')}'" if self.path else ""
        return f"invalid Protobuf{where}: got {self.what}" + ("" if self.place is None else f" at byte {self.place}")


class SuspiciousError(Exception):
    """A message has a field in another encoding than the schema's: its bytes tell which one."""
