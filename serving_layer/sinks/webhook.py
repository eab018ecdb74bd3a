"""A webhook: each changed result is posted to an address. An answer of 2xx means that it was taken."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hourline_core.error_causes import first_cause
from hourline_core.errors import SinkError
from hourline_core.model import Sink
from serving_layer.sinks.one_result import one_result_json
from serving_layer.sinks.result import Result
from serving_layer.sinks.sent_results import SentResults

if TYPE_CHECKING:
    import httpx

_SECONDS = 30.0
_SHORTEST_SECRET = 4
"""Shorter parts of what is sent are words that an answer may have anyway."""


class WebhookTarget:
    """One connection, which is kept between results."""

    results_at_once = 10

    def __init__(self, sink: Sink, sent: SentResults) -> None:
        """Raises SinkError if the address cannot be one."""
        import httpx

        assert sink.webhook is not None
        self._sink, self._webhook = sink, sink.webhook
        # A redirect would turn a POST into a GET, so none is followed. A proxy of the environment is used.
        self._client = httpx.Client(timeout=_SECONDS, follow_redirects=False)
        try:
            self._client.build_request("POST", sink.webhook.url, headers=sink.webhook.headers)
        except Exception as error:  # It has many, and their words may have the secrets of a header.
            raise SinkError(
                f"the address or a header of the webhook at {sink.place} cannot be sent ({type(error).__name__}); mend "
                f"sinks/{sink.name}.yaml"
            ) from None
        sent.begin(f"webhook {sha256(sink.webhook.url.encode()).hexdigest()}")

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        """See ``Target``."""
        import httpx

        taken = 0
        try:
            for result in results:
                answer = self._client.post(
                    self._webhook.url,
                    content=one_result_json(self._sink, result, token, revision),
                    headers={"Content-Type": "application/json", **self._webhook.headers},
                )
                if not answer.is_success:
                    raise self._refused(result, answer)
                taken += 1
        except httpx.HTTPError as error:
            why = self._without_secrets(str(error) or type(error).__name__)
            raise SinkError(
                f"{self._sink.place} has not answered as HTTP wants it: {why}; see whether it runs"
            ) from None
        finally:
            sent.keep(results[:taken], revision)

    def end_round(self, first_revision: int) -> None:
        """See ``Target``."""

    def close(self) -> None:
        """See ``Target``."""
        self._client.close()

    def _refused(self, result: Result, answer: "httpx.Response") -> SinkError:
        return SinkError(
            f"{self._sink.place} did not take the result {result.key}, allowed is an answer of 2xx: it answered "
            f"{answer.status_code} ({self._without_secrets(answer.text or answer.reason_phrase)[:200]})"
        )

    def _without_secrets(self, words: str) -> str:
        """An answer may repeat what it was sent."""
        sent = [self._webhook.url, *self._webhook.headers.values()]
        parts = {part for one in sent for part in (one, *re.split(r"[\s/?&=]+", one)) if len(part) >= _SHORTEST_SECRET}
        for part in sorted(parts - {urlsplit(self._webhook.url).netloc}, key=len, reverse=True):
            words = words.replace(part, "***")
        return first_cause([words])
