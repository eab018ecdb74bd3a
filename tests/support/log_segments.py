"""Damages the last batch of records in the file of a Kafka partition, as a bad disk or a newer producer does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LENGTH, _CRC, _ATTRIBUTES, _RECORDS = slice(8, 12), slice(17, 21), slice(21, 23), 61
"""Where a batch has the length of what follows, the CRC-32C of what follows that, the codec, and the records."""

UNKNOWN_CODEC = 7


@contextmanager
def damaged(log: Path, codec: int | None = None) -> Iterator[None]:
    """Within the block, one byte of the last batch is another; or, with ``codec``, it claims to be compressed so."""
    whole = log.read_bytes()
    begin = _last_batch(whole)
    batch = bytearray(whole[begin : begin + 12 + int.from_bytes(whole[begin:][_LENGTH])])
    if codec is None:
        batch[_RECORDS] ^= 0xFF
    else:
        batch[_ATTRIBUTES] = codec.to_bytes(2)
        batch[_CRC] = _crc32c(bytes(batch[_ATTRIBUTES.start :])).to_bytes(4)
    _overwrite(log, begin, bytes(batch))
    try:
        yield
    finally:
        _overwrite(log, begin, whole[begin : begin + len(batch)])


def _last_batch(whole: bytes) -> int:
    """Where it begins. A running broker's file may end with zeros."""
    begin = following = 0
    while following + _RECORDS <= len(whole) and any(whole[following:][_LENGTH]):
        begin, following = following, following + 12 + int.from_bytes(whole[following:][_LENGTH])
    return begin


def _overwrite(log: Path, begin: int, batch: bytes) -> None:
    with log.open("r+b") as file:
        file.seek(begin)
        file.write(batch)


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
