"""stub"""

from collections.abc import Sequence

from batch_layer.audit.auditing import Audited
from hourline.declarations import Project


def write_pages(project: Project, number: int, found: Sequence[Audited]) -> None:
    pass
