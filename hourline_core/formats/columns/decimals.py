"""Exact numbers: decimals and epochs, from the bytes of a JSON number or of a plain number in quotes.

The time to read a number grows with its length, and not with its exponent.
"""

import re
from decimal import Decimal
from typing import NamedTuple

PLAIN = r"-?[0-9]+(?:\.[0-9]+)?"
"""A number that may stand in quotes: ASCII digits, at most one point, no exponent."""

_NUMBER = re.compile(rb"(-?)([0-9]++)(?:\.([0-9]++))?(?:[eE]([+-]?[0-9]++))?")
_QUOTED = re.compile(f'"{PLAIN}"'.encode())
_LONGEST_EXPONENT = 9
_EPOCH_DIGITS = 18


def plain_pattern(precision: int, scale: int) -> str:
    """The pattern of plain numbers that the type holds exactly whatever their digits are, without leading zeros."""
    whole = precision - scale
    digits = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
    return f"-?{digits}{fraction}"


class _Written(NamedTuple):
    """A number as ``digits`` × 10 ** ``exponent``. Zero has no digits, and else neither end of them is a 0."""

    is_negative: bool
    digits: bytes
    exponent: int


def decimal_of(written: bytes, precision: int, scale: int, *, rounds: bool) -> Decimal | None:
    """The number ``written``; None if it is none, or is not held exactly. With ``rounds``, halves go away from zero."""
    number = _read(written)
    if number is None:
        return None
    unscaled = _scaled(number, scale, precision, rounds=rounds)
    if unscaled is None or len(str(abs(unscaled))) > precision:
        return None
    return Decimal(f"{unscaled}E-{scale}")


def is_too_exact(written: bytes, precision: int, scale: int) -> bool:
    """Whether ``written`` is refused only because it is not rounded."""
    return decimal_of(written, precision, scale, rounds=True) is not None


def epoch_micros(written: bytes, *, digits_of_unit: int) -> int | None:
    """Microseconds from a number of units, each of 10 ** ``digits_of_unit`` microseconds. None if it is no number.

    What is below a microsecond is cut off, towards the earlier one.
    """
    number = _read(written)
    if number is None:
        return None
    moved = number._replace(exponent=number.exponent + digits_of_unit)
    micros = _scaled(moved, 0, _EPOCH_DIGITS, rounds=False, cuts=True)
    if micros is None:
        return None
    is_cut = number.digits and moved.exponent < 0
    return micros - 1 if is_cut and number.is_negative else micros


def _read(written: bytes) -> _Written | None:
    if written[:1] == b'"':
        if not _QUOTED.fullmatch(written):
            return None
        written = written[1:-1]
    match = _NUMBER.fullmatch(written)
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups(b"")
    digits = (whole + fraction).lstrip(b"0")
    kept = digits.rstrip(b"0")
    if not kept:
        return _Written(is_negative=False, digits=b"", exponent=0)
    return _Written(sign == b"-", kept, len(digits) - len(kept) - len(fraction) + _bounded(exponent))


def _bounded(exponent: bytes) -> int:
    """The exponent, or one that is as good as it: too large, or too small, for any number of digits."""
    digits = exponent.lstrip(b"+-").lstrip(b"0")
    if len(digits) > _LONGEST_EXPONENT:
        digits = b"1" + b"0" * 18
    return (-1 if exponent[:1] == b"-" else 1) * int(digits or b"0")


def _scaled(number: _Written, scale: int, most: int, *, rounds: bool, cuts: bool = False) -> int | None:
    """``number`` × 10 ** ``scale`` as an integer. None: it has more than ``most`` digits, or is no integer."""
    shift = number.exponent + scale
    if not number.digits:
        return 0
    if len(number.digits) + shift > most:
        return None
    if shift >= 0:
        size = int(number.digits + b"0" * shift)
    elif not (rounds or cuts):
        return None
    else:
        kept = number.digits[: max(len(number.digits) + shift, 0)]
        first_lost = number.digits[len(kept) : len(kept) + 1] if len(number.digits) + shift >= 0 else b"0"
        size = int(kept or b"0") + (rounds and first_lost >= b"5")
    return -size if number.is_negative else size
