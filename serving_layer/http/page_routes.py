"""The page, its files, and the audit's reports as they lie on disk. The page itself knows nothing: all that it shows, it asks of the API."""

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hourline.declarations import Project
from hourline.report_pages import report_site

_PAGE = Path(__file__).with_name("page")
# Plotly writes the style of its charts into the document: without 'unsafe-inline' they have none. Scripts come from files alone.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Reports quote what came from outside: nothing of theirs is to run.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_COMMON = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class _Files(StaticFiles):
    """Files of a folder, asked for anew each time (and not sent again when unchanged), with these headers."""

    def __init__(self, directory: Path, policy: str) -> None:
        super().__init__(directory=directory, check_dir=False)
        self._headers = {**_COMMON, "Cache-Control": "no-cache", "Content-Security-Policy": policy}

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(self._headers)
        return response


def page_routes(app: FastAPI, project: Project) -> None:
    """Adds the page at ``/``, its files under ``/page`` and the reports of ``project`` under ``/reports``."""
    plotly_name = f"plotly-{version('plotly')}.min.js"  # another version, another address: browsers may keep it for ever
    html = (_PAGE / "index.html").read_text(encoding="utf-8").replace("plotly.min.js", plotly_name)

    @app.get("/", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(html, headers={**_COMMON, "Cache-Control": "no-cache", "Content-Security-Policy": _PAGE_POLICY})

    @app.get(f"/page/{plotly_name}", include_in_schema=False)
    def plotly(request: Request) -> Response:
        headers = {**_COMMON, "Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return FileResponse(_plotly_file(), media_type="text/javascript", headers=headers)
        return Response(_plotly_packed(), media_type="text/javascript", headers={**headers, "Content-Encoding": "gzip"})

    app.mount("/page", _Files(_PAGE, _PAGE_POLICY), name="page")
    app.mount("/reports", _Files(report_site(project), _REPORT_POLICY), name="reports")


def _plotly_file() -> Path:
    return Path(str(files("plotly") / "package_data" / "plotly.min.js"))


@cache
def _plotly_packed() -> bytes:
    return gzip.compress(_plotly_file().read_bytes(), compresslevel=6, mtime=0)
