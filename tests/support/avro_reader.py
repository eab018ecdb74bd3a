"""Reads Avro's binary encoding by its specification alone, and says where bytes are no record of a schema."""

from typing import Any
from uuid import UUID


class NoAvroError(Exception):
    """The bytes are no record. ``path`` is the member at fault, ``place`` the byte, and ``what`` the fault."""

    def __init__(self, path: str, place: int, what: str) -> None:
        super().__init__(path, place, what)
        self.path, self.place, self.what = path, place, what


class AvroReader:
    """One pass over ``data``."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place, self._path = data, 0, ""

    def record(self, schema: Any) -> None:
        """Pass the record that the data is. Raises NoAvroError."""
        self._pass_members(schema, "")
        if self._place < len(self._data):
            raise NoAvroError("", self._place, "behind the end")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._place:
            raise NoAvroError(self._path, len(self._data), "the end of the bytes")
        self._place += size
        return self._data[self._place - size : self._place]

    def _number(self, low: int = -(1 << 63), below: int = 1 << 63) -> int:
        begin = self._place
        digits: list[int] = []
        while not digits or digits[-1] >= 128:
            if len(digits) == 10:
                raise NoAvroError(self._path, begin, "a number of more than 10 bytes")
            digits += self._take(1)
        coded = sum(digit % 128 << 7 * place for place, digit in enumerate(digits))
        if coded >= 1 << 64:
            raise NoAvroError(self._path, begin, "a number of more than 64 bits")
        number = -(coded + 1) // 2 if coded % 2 else coded // 2
        self._check(low <= number < below, begin, str(number))
        return number

    def _check(self, is_fit: bool, place: int, what: str) -> None:
        if not is_fit:
            raise NoAvroError(self._path, place, what)

    def _bytes(self) -> bytes:
        begin = self._place
        size = self._number()
        self._check(size >= 0, begin, "the length")
        return self._take(size)

    def _text(self) -> str:
        written = self._bytes()
        try:
            return written.decode()
        except UnicodeDecodeError as error:
            place = self._place - len(written) + error.start
            raise NoAvroError(self._path, place, "invalid UTF-8") from None

    def _pass_members(self, schema: Any, path: str) -> None:
        for member in schema["fields"]:
            self._path = f"{path}.{member['name']}" if path else member["name"]
            self._pass(member["type"])

    def _blocks(self, path: str, is_array: bool) -> Any:
        done = 0
        while True:
            self._path = f"{path}[{done}]" if is_array else path
            begin, size = self._place, None
            count = self._number()
            if count == 0:
                return
            if count < 0:
                size = self._number()
                self._check(size >= 0, begin, "the size")
            first = self._place
            for _ in range(abs(count)):
                self._path = f"{path}[{done}]" if is_array else path
                yield
                done += 1
            self._path = f"{path}[{done}]" if is_array else path
            self._check(size is None or self._place == first + size, begin, "a block of another size")

    def _pass(self, kind: Any) -> None:  # noqa: PLR0912 (a table of types)
        begin, path = self._place, self._path
        if isinstance(kind, list):
            return self._pass(kind[self._number(0, len(kind))])
        name, logical = (kind["type"], kind.get("logicalType")) if isinstance(kind, dict) else (kind, None)
        match name:
            case "boolean":
                self._check(self._take(1) in (b"\0", b"\1"), begin, "want a boolean")
            case "int":
                self._number(-(1 << 31), 1 << 31)
            case "long":
                self._number()
            case "float" | "double":
                self._take(4 if name == "float" else 8)
            case "fixed":
                self._take(kind["size"])
            case "enum":
                self._number(0, len(kind["symbols"]))
            case "bytes":
                number = self._bytes()
                if logical == "decimal":
                    is_fit = bool(number) and abs(int.from_bytes(number, "big", signed=True)) < 10 ** kind["precision"]
                    self._check(is_fit, begin, "want a decimal")
            case "string":
                text = self._text()
                if logical == "uuid":
                    try:
                        is_fit = str(UUID(text)) == text.lower()
                    except ValueError:
                        is_fit = False
                    self._check(is_fit, begin, "want a uuid")
            case "array":
                for _ in self._blocks(path, is_array=True):
                    self._pass(kind["items"])
            case "map":
                for _ in self._blocks(path, is_array=False):
                    self._text()
                    self._pass(kind["values"])
            case "record":
                self._pass_members(kind, path)
        return None
