"""Serves the pages of audits over HTTP, and makes links to them for JSON answers."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hourline_core.ledger.report_pages import report_site
from hourline_core.model import Project

_PREFIX = "/reports"
_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
"""Headers of the pages. They show rows of users' data, and need no script."""


def report_address(project: Project, page: str | None) -> str | None:
    """The address of a page of the reports, given its path. None: there is no page."""
    return None if page is None else f"{_PREFIX}/{Path(page).relative_to(report_site(project)).as_posix()}"


def with_addresses(project: Project, report: Any) -> Any:
    """A report as data, with the paths of pages (``report``, ``site``) replaced by addresses."""
    if isinstance(report, dict):
        return {
            key: report_address(project, value)
            if key in ("report", "site") and isinstance(value, str)
            else with_addresses(project, value)
            for key, value in report.items()
        }
    return [with_addresses(project, one) for one in report] if isinstance(report, list) else report


def report_routes(app: FastAPI, project: Project) -> None:
    """Serve the pages."""
    app.mount(_PREFIX, _Pages(directory=report_site(project), html=True, check_dir=False), name="reports")


class _Pages(StaticFiles):
    async def check_config(self) -> None:
        """Do nothing: the first audit makes the folder."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Content-Security-Policy"] = _POLICY
        return answer
