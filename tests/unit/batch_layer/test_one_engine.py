"""Each function of the batch layer asks Spark or DuckDB, and not both."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import batch_layer

FOLDER = Path(batch_layer.__file__).parent
ENGINES = ("pyspark", "duckdb")
OF_JOBS = {"spark": "pyspark", "database": "duckdb"}
"""The attributes by which a job has its engines."""


def engines_of_functions(code: str) -> Iterator[tuple[str, set[str]]]:
    """Each function of a module, and the engines whose names it uses, also in what it defines within."""
    module = ast.parse(code)
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            imported = [(name.name, name.asname or name.name.split(".")[0]) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [(node.module or "", name.asname or name.name) for name in node.names]
        else:
            continue
        names |= {name: engine for of, name in imported if (engine := of.split(".")[0]) in ENGINES}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, {used for part in ast.walk(node) if (used := engine_of(part, names))}


def engine_of(node: ast.AST, names: dict[str, str]) -> str | None:
    """The engine that a part of the code names. ``names`` are the imported ones, by name."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Constant(value=str(text)):  # a type that is imported for annotations alone
            return names.get(text)
        case ast.Attribute(attr=name):
            return OF_JOBS.get(name)
    return None


def test_no_function_of_the_batch_layer_has_both_engines_in_it() -> None:
    found = {
        f"{file.relative_to(FOLDER)}: {name}": engines
        for file in FOLDER.rglob("*.py")
        for name, engines in engines_of_functions(file.read_text(encoding="utf-8"))
    }
    assert {engine for engines in found.values() for engine in engines} == set(ENGINES)
    assert [name for name, engines in found.items() if len(engines) > 1] == []


@pytest.mark.parametrize(
    "body",
    ["duckdb.sql('')\n    F.lit(1)", "job.database\n    F.lit(1)", "duckdb.sql('')\n    job.spark()"],
)
def test_a_function_with_both_engines_is_found(body: str) -> None:
    code = f"import duckdb\nfrom pyspark.sql import functions as F\ndef both(job):\n    {body}\n"
    assert list(engines_of_functions(code)) == [("both", set(ENGINES))]
