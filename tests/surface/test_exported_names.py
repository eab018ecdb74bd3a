"""What `import hourline` offers, and that it costs nothing until it is used."""

import subprocess
import sys
from typing import get_type_hints

import pytest

import hourline
import hourline_core.model
import serving_layer

ENGINES = ("duckdb", "pyspark", "airflow", "deltalake", "confluent_kafka", "pyarrow")


def test_the_public_names_are_these() -> None:
    assert sorted(hourline.__all__) == ["Project", "__version__", "connect", "load_project"]


def test_each_public_name_is_what_it_says() -> None:
    from hourline import Project, __version__, connect, load_project

    assert issubclass(Project, hourline_core.model.Project)
    assert get_type_hints(load_project)["return"] is Project
    assert connect is serving_layer.connect
    assert [int(part) for part in __version__.split(".")]


def test_any_other_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'hourline' has no attribute 'conect'"):
        _ = hourline.conect
    with pytest.raises(ImportError):
        from hourline import conect  # noqa: F401


def test_importing_the_package_imports_no_engine() -> None:
    assert imported_by("import hourline") == set()


def test_the_names_of_declarations_import_no_engine() -> None:
    assert imported_by("from hourline import Project, load_project") == set()


def test_the_probe_sees_an_engine() -> None:
    assert "duckdb" in imported_by("from hourline import connect")


def imported_by(statement: str) -> set[str]:
    """Those of ENGINES that a fresh Python has imported after ``statement``."""
    script = f"{statement}\nimport sys\nprint(*(name for name in {ENGINES} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    return set(done.stdout.split())
