"""The URL of a table in PostgreSQL. It never has a password: a declaration is shown, and libpq has other places."""

import re
from urllib.parse import parse_qs, urlsplit

from hourline_core.model.base import describe, refuse

_ALLOWED = "allowed is postgresql://USER@HOST:PORT/DATABASE?table=SCHEMA.NAME"
_PASSWORD = (
    f"got a URL with a password, or with a ':' before an '@', {_ALLOWED}; give the password in the environment as "
    "PGPASSWORD, or in a file that PGPASSFILE or &passfile= names, and write another '@' as %40"
)
_MAY_HAVE_PASSWORD = re.compile(r"^[a-z][a-z0-9+.-]*:[^@]*:[^@]*@|://[^@]*:[^@]*@|[?&](ssl)?password=", re.IGNORECASE)
"""A URL of any scheme that has a password, also one with ``/``, ``?`` or ``#`` in it, which no URL allows."""


def refuse_password(address: str) -> None:
    """Raise a pydantic error if ``address``, of any scheme, may have a password. The error does not show it."""
    if _MAY_HAVE_PASSWORD.search(address):
        raise refuse(_PASSWORD)


def check_postgres_url(address: str) -> str:
    """``address``, if it names a table. Raises a pydantic error, which never shows a password."""
    refuse_password(address)
    try:
        options = parse_qs(urlsplit(address).query)
    except ValueError:
        raise refuse(f"got a URL that cannot be read, {_ALLOWED}") from None
    if not {"password", "sslpassword"}.isdisjoint(options):
        raise refuse(_PASSWORD)
    if not address.startswith("postgresql://") or not options.get("table"):
        raise refuse(f"got {describe(address)}, {_ALLOWED}")
    return address
