"""``serve``: serves the results over HTTP, and by Arrow Flight SQL. Needs neither Spark nor Java."""

import logging
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.stop_signals import stop_on_signal
from hourline_core.errors import HourlineError


def serve(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="The port, instead of `serve.port` of the settings."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve the results over HTTP until Ctrl-C. Other machines are served only with tokens and TLS. With
    `serve.flight_port` of the settings, BI tools and notebooks are answered by Arrow Flight SQL, too.
    """
    declared = load(project, workspace)
    if port is not None:
        settings = declared.settings.model_copy(
            update={"serve": declared.settings.serve.model_copy(update={"port": port})}
        )
        declared = replace(declared, settings=settings)
    from serving_layer.http.server import Server

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    with stop_on_signal("stopping") as stop:
        with Server(declared) as server:
            if server.running:
                also = f", and by Arrow Flight SQL at {server.flight_url}" if server.flight_url else ""
                say(f"{declared.name} is served at {server.url}{also}; Ctrl-C stops it")
                if open_page:
                    webbrowser.open(server.url)
            while server.running and not stop.wait(0.5):
                pass
        if not stop.is_set():
            raise HourlineError("the server has ended by itself; what it said is above")
    note("stopped")
