"""Serves the page and its files. The page asks the API for everything that it shows."""

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_PAGE = Path(__file__).with_name("page")
# Plotly writes the style of its charts into the document: without 'unsafe-inline' they have none. Scripts come from
# files alone.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
}


class _Files(StaticFiles):
    """Serves files that browsers ask for each time. A file that has not changed is not sent again."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


def page_routes(app: FastAPI) -> None:
    """Adds the page at ``/`` and its files under ``/page``."""
    # Another version has another address, so browsers may keep it for ever.
    plotly_name = f"plotly-{version('plotly')}.min.js"
    html = (_PAGE / "index.html").read_text(encoding="utf-8").replace("plotly.min.js", plotly_name)

    @app.get("/", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(html, headers=_HEADERS)

    @app.get(f"/page/{plotly_name}", include_in_schema=False)
    def plotly(request: Request) -> Response:
        headers = {**_HEADERS, "Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return FileResponse(_plotly_file(), media_type="text/javascript", headers=headers)
        return Response(_plotly_packed(), media_type="text/javascript", headers={**headers, "Content-Encoding": "gzip"})

    app.mount("/page", _Files(directory=_PAGE), name="page")


def _plotly_file() -> Path:
    return Path(str(files("plotly") / "package_data" / "plotly.min.js"))


@cache
def _plotly_packed() -> bytes:
    return gzip.compress(_plotly_file().read_bytes(), compresslevel=6, mtime=0)
