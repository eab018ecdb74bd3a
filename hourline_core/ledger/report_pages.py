"""Where the reports speak of what: the addresses of Data Docs pages within the site, for whoever writes them or links
to them.
"""

from datetime import datetime, timedelta
from pathlib import Path

from hourline_core.model import Project
from hourline_core.model.hours import hour_text

SHOWN = timedelta(days=28)
"""The overview shows so much, back from each source's newest audited hour, and what is blocked however old it is."""


def report_site(project: Project) -> Path:
    """The folder of the reports, whose overview page is ``index.html``; it need not be there yet."""
    return project.workspace / "quality"


def page_name(source: str, metric: str | None) -> str:
    """The name of the page about a metric, or about the events of its source; a source and a metric may share a name."""
    return f"metric-{metric}" if metric is not None else f"source-{source}"


def page_path(publication: int, name: str) -> str:
    """The address of a Data Docs page within the site."""
    return f"runs/{publication:06d}/{name}.html"


def anchor(hour: datetime) -> str:
    """Where a page speaks of ``hour``."""
    return f"h{hour_text(hour)}"
