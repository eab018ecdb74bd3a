"""A running project for benchmarks of the whole stack: clicks with ids, all in one hour."""

from pathlib import Path

import serving_layer
from benchmarks.project_files import write_files
from benchmarks.up_project import UpProject
from hourline import load_project
from hourline_core.runtime.ports import free_ports

SOURCE = """\
topic: clicks
fields: {click: string, page: string, at: long}
event_time: {expression: at, encoding: epoch_seconds}
id: click
"""
METRIC = "source: clicks\ndimensions: [page]\nmeasures: {clicks: count, pages: distinct(page)}\n"
AT = 1_700_000_000 // 3600 * 3600


class Clicks(UpProject):
    """The project. The first ``clicks`` wait for Kafka."""

    def __init__(self, folder: Path, clicks: int) -> None:
        (port,) = free_ports(1)
        settings = f"name: clicks\nkafka: {{port: {port}}}\n"
        files = {"hourline.yaml": settings, "sources/clicks.yaml": SOURCE, "metrics/visits.yaml": METRIC}
        super().__init__(load_project(write_files(folder, files)), port, "clicks")
        self.send(clicks)

    def send(self, clicks: int) -> None:
        """Send more clicks, all in one hour. They wait until Kafka is up."""
        self._produce(range(self.sent, self.sent + clicks))
        self.sent += clicks

    def repeat(self, clicks: int) -> None:
        """Send the first ``clicks`` again. They must not count twice."""
        self._produce(range(clicks))

    def count(self) -> int:
        with serving_layer.connect(self.project) as connection:
            ((counted,),) = connection.sql("SELECT coalesce(sum(clicks), 0)::BIGINT FROM visits").fetchall()
        return int(counted)

    def _produce(self, numbers: range) -> None:
        for number in numbers:
            value = f'{{"click": "click {number}", "page": "page {number % 50}", "at": {AT + number % 3600}}}'
            self.producer.produce("clicks", value.encode())
