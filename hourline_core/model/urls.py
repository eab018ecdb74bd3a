"""Addresses of HTTP servers in declarations."""

from urllib.parse import urlsplit

from hourline_core.model.base import refuse

_ALLOWED = "allowed is http://HOST:PORT/PATH or https://HOST:PORT/PATH"


def check_http_url(url: str) -> str:
    """``url``, if it is an address of HTTP without a user. Raises a pydantic error, which never shows a password."""
    # Before anything else: a URL with a password is not shown.
    if "@" in url.partition("?")[0]:
        raise refuse(f"got a URL with an '@', {_ALLOWED}; give credentials as a header")
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.fragment or any(character.isspace() for character in url):
        raise refuse(f"got something else, {_ALLOWED}")  # It may be a secret.
    return url
