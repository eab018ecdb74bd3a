"""The addresses of the pages of audits within the site, for those who write them or link to them."""

from datetime import datetime, timedelta
from pathlib import Path

from hourline_core.model import Project
from hourline_core.model.hours import hour_text

SHOWN = timedelta(days=28)
"""The time that the overview shows, back from each source's newest audited hour. Blocked hours are shown however old
they are.
"""


def report_site(project: Project) -> Path:
    """The folder of the reports, whose overview page is ``index.html``. It may not exist yet."""
    return project.workspace / "quality"


def page_name(source: str, metric: str | None) -> str:
    """The name of the page about a metric, or about the events of its source. The two may have the same name."""
    return f"metric-{metric}" if metric is not None else f"source-{source}"


def page_path(publication: int, name: str) -> str:
    """The address of the page of an audit within the site."""
    return f"runs/{publication:06d}/{name}.html"


def anchor(hour: datetime) -> str:
    """The anchor of ``hour`` in a page."""
    return f"h{hour_text(hour)}"
