"""Hourline: hourly results now, exact results after the hour.

connect(project)         merged results through DuckDB; needs the extra `serving`
load_project(folder)     a project: its declarations, and methods that run things
Project                  what load_project returns
__version__              the version that is installed
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hourline.project import Project, load_project
    from serving_layer import connect

__all__ = ["Project", "__version__", "connect", "load_project"]

_HOMES = {"Project": "hourline.project", "load_project": "hourline.project", "connect": "serving_layer"}


def __getattr__(name: str) -> Any:
    """Import a name on first use (PEP 562): the command line imports this package, and `--help` must not wait for
    DuckDB.
    """
    if name == "__version__":
        return version("hourline")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hourline' has no attribute '{name}'")
