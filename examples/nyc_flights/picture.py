"""``python -m examples.nyc_flights.picture`` runs the demo, and draws the README's picture, docs/demo.svg."""

import re
import sys
from pathlib import Path

from rich.console import Console

from examples.nyc_flights.demo import play
from examples.nyc_flights.screen import Screen

_FILE = Path(__file__).parents[2] / "docs" / "demo.svg"
_FIRST, _AFTER = 4, 7
"""The acts in the picture: from the first recompute until late events have revised hours."""
_FONT = re.compile(r"\s*@font-face {.*?}", re.DOTALL)
"""The fonts that Rich's picture would load from another host."""


class Camera(Screen):
    """A screen that saves some acts as a picture. It is no terminal, since the picture would contain each frame."""

    def __init__(self) -> None:
        super().__init__(Console(highlight=False, force_terminal=False, record=True, width=100))
        self._act = 0

    def title(self, text: str) -> None:
        self._act += 1
        if self._act == _FIRST:
            self.console.export_text()  # clears the record of earlier acts
        if self._act == _AFTER:
            _FILE.parent.mkdir(exist_ok=True)
            _FILE.write_text(_FONT.sub("", self.console.export_svg(title="make demo")), encoding="utf-8")
        super().title(text)


if __name__ == "__main__":
    sys.exit(play(Camera()))
