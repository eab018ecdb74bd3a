"""Downloads one file, with a few retries. Proxies and certificates come from the environment, as urllib reads it."""

import hashlib
import http.client
import ssl
from pathlib import Path
from threading import Event
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from hourline_core.errors import SetupError

_PAUSES_SECONDS = (0.5, 1, 2, 0)  # after each attempt
_TIMEOUT_SECONDS = 20
_CHUNK = 1 << 18


def download(url: str, target: Path, stop: Event) -> str:
    """Download ``url`` to ``target`` and return the SHA-256 in hex.

    Retries after a broken connection or a server error, with growing pauses. Another thread can end it with ``stop``.
    Raises SetupError when the URL does not exist or cannot be reached.
    """
    for pause in _PAUSES_SECONDS:
        try:
            return _download_once(url, target, stop)
        except HTTPError as error:
            reason: object = f"HTTP status {error.code}"
            if error.code in (404, 410):
                raise SetupError(
                    f"{url} does not exist; set HOURLINE_MAVEN to a Maven repository that has it"
                ) from None
            if error.code < 500 and error.code != 429:
                break
        except URLError as error:
            reason = getattr(error.reason, "strerror", None) or error.reason
            if isinstance(error.reason, FileNotFoundError):  # a file:// URL
                raise SetupError(
                    f"{url} does not exist; set HOURLINE_MAVEN to a Maven repository that has it"
                ) from None
        except (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
        if stop.wait(pause):
            break
    raise SetupError(
        f"{url} cannot be fetched: {reason}; "
        "check the network and the proxy, or set HOURLINE_MAVEN to a Maven repository that can be reached"
    )


def _download_once(url: str, target: Path, stop: Event) -> str:
    digest = hashlib.sha256()
    with urlopen(url, timeout=_TIMEOUT_SECONDS) as response, target.open("wb") as file:  # noqa: S310 - the caller chose the scheme
        expected = response.headers.get("Content-Length")
        while not stop.is_set() and (chunk := response.read(_CHUNK)):
            digest.update(chunk)
            file.write(chunk)
        if stop.is_set():
            raise ConnectionError("stopped because another file failed")
        if expected is not None and file.tell() != int(expected):
            raise ConnectionError(f"the connection ended after {file.tell()} of {expected} bytes")
    return digest.hexdigest()
