"""A result as it is sent: a key that names it, and its value, both as JSON."""

import json
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Result:
    """A result that has changed."""

    key: str
    """A JSON object: ``window_start``, ``window_end`` (exclusive), and the dimensions."""
    window: tuple[datetime, datetime]
    """The window of the key (UTC)."""
    value: str | None
    """A JSON object: the measures and ``state``. None: the result is gone."""
    digest: str | None
    """The MD5 of ``value`` and of what names its schema, in hexadecimal digits. None: the result is gone."""

    def sent_value(self, token: str, revision: int) -> str | None:
        """The value with ``token`` and ``revision``, as it is sent. None: the result is gone."""
        if self.value is None:
            return None
        return f'{self.value[:-1]},"token":{json.dumps(token)},"revision":{revision}}}'
