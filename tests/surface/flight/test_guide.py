"""The blocks of Python in the guide run, one after the other, against a server."""

import sys
from typing import Any

import pytest

from serving_layer.http.server import Server
from tests.support.flight_clients import ADMIN
from tests.support.shown import ROOT, blocks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")


def test_the_guide_s_python_runs(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOURLINE_ADMIN_TOKEN", ADMIN)
    shown = blocks(ROOT / "docs/guides/flight.md", "py")
    names: dict[str, Any] = {}
    told = []
    for block in shown:
        here = block.replace("grpc+tls://results.example.org:31337", str(server.flight_url))
        exec(here.replace("views_by_page", "visits"), names)  # noqa: S102
        told.append(capsys.readouterr().out)
    assert len(told) == 3
    assert "visitors: int64" in told[0]
    assert "/shop/boots" in told[1]
    assert told[2].startswith("p1-clicks.")
