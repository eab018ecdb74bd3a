"""A client of a running Airflow's API: its health, its DAGs, and the errors in their files."""

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx

from hourline_core.errors import HourlineError
from hourline_core.model import Project
from hourline_core.runtime.airflow.configuration import ADMIN, POOLS, password_file


class AirflowError(HourlineError):
    """Airflow does not answer, or refused a request."""

    retryable = True


class AirflowApi:
    """A client of the Airflow at ``url``. It logs in as Airflow's only user before the first request that needs it."""

    def __init__(self, project: Project, url: str, timeout_seconds: float = 10.0) -> None:
        self._project = project
        self._client = httpx.Client(base_url=url, timeout=timeout_seconds, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def health(self) -> dict[str, str]:
        """The state of each part (metadatabase, scheduler, triggerer, dag_processor): healthy, unhealthy or none.

        ``none`` stands for a part that has not reported yet. The result is empty while the API does not answer.
        """
        try:
            answer = self._client.get("/api/v2/monitor/health")
            answer.raise_for_status()
        except httpx.HTTPError:
            return {}
        return {part: facts.get("status") or "none" for part, facts in answer.json().items() if facts}

    def dags(self) -> list[dict[str, Any]]:
        """The DAGs, in the API's form. Raises AirflowError."""
        return list(self._all("dags", "dags"))

    def import_errors(self) -> list[dict[str, Any]]:
        """The errors in the DAG files, each with ``filename`` and ``stack_trace``. Raises AirflowError."""
        return list(self._all("importErrors", "import_errors"))

    def has_parsed(self, files: int) -> bool:
        """Whether Airflow has read the DAG files. Each file gives DAGs or one import error."""
        return len({dag["relative_fileloc"] for dag in self.dags()}) + len(self.import_errors()) >= files

    def create_pools(self) -> None:
        """Create the pools that the DAGs run in. Existing pools are not changed. Raises AirflowError."""
        for name, description in POOLS.items():
            answer = self._request("POST", "pools", json={"name": name, "slots": 1, "description": description})
            if answer.status_code != httpx.codes.CONFLICT:
                self._check(answer)

    def get(self, path: str, **parameters: Any) -> Any:
        """The answer to a GET of ``path`` below ``/api/v2``. Raises AirflowError."""
        return self._check(self._request("GET", path, params=parameters)).json()

    def post(self, path: str, body: Any) -> Any:
        """The answer to a POST of ``body`` to ``path`` below ``/api/v2``. Raises AirflowError."""
        return self._check(self._request("POST", path, json=body)).json()

    def patch(self, path: str, body: Any) -> Any:
        """The answer to a PATCH of ``path`` below ``/api/v2`` with ``body``. Raises AirflowError."""
        return self._check(self._request("PATCH", path, json=body)).json()

    def _all(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        got = 0
        while True:
            answer = self.get(path, limit=100, offset=got)
            yield from answer[name]
            got += len(answer[name])
            if got >= answer["total_entries"] or not answer[name]:
                return

    def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            if "Authorization" not in self._client.headers:
                self._log_in()
            return self._client.request(method, f"/api/v2/{path}", **arguments)
        except httpx.HTTPError as error:
            raise AirflowError(f"Airflow at {self._client.base_url} does not answer: {error}") from None

    def _log_in(self) -> None:
        password = json.loads(password_file(self._project).read_text())[ADMIN]
        answer = self._check(self._client.post("/auth/token", json={"username": ADMIN, "password": password}))
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    @staticmethod
    def _check(answer: httpx.Response) -> httpx.Response:
        if answer.is_error:
            raise AirflowError(
                f"Airflow refused {answer.request.method} {answer.request.url}: "
                f"{answer.status_code} {answer.text[:300]}"
            )
        return answer
