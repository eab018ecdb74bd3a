"""The rows that a test gives to lookups, in place of those of their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hourline_core.errors import DeclarationError, TableError
from hourline_core.lookups.read_csv import convert_cells, describe_form
from hourline_core.lookups.rows import take_rows
from hourline_core.model import Lookup, Project
from hourline_core.model.base import describe
from hourline_core.model.loaded_tests import LoadedTest

_OF_GIVEN = {"on_duplicate": "error", "allow_empty": True}


def refuse_unfit_rows(project: Project, tests: Sequence[LoadedTest]) -> None:
    """Raise DeclarationError, with a line for each mistake, if ``tests`` give rows that their lookups cannot have."""
    mistakes = []
    for test in tests:
        for name, rows in test.declared.lookups.items():
            try:
                given = project.lookups[name].model_copy(update={**_OF_GIVEN, "table": "the given table"})
                with TemporaryDirectory() as folder:
                    take_rows(given, [_as_table(given, rows, test)], Path(folder))
            except TableError as error:
                mistakes.append(f"{test.place('lookups', name)}: lookups.{name}: {error}")
            except DeclarationError as error:
                mistakes.append(str(error))
    if mistakes:
        raise DeclarationError("\n".join(mistakes))


def with_given_lookups(project: Project, test: LoadedTest, folder: Path) -> Project:
    """``project`` with lookups that have the rows which ``test`` gives. They are written into ``folder``."""
    lookups = dict(project.lookups)
    for name, rows in test.declared.lookups.items():
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.parquet"
        pq.write_table(_as_table(lookups[name], rows, test), file)
        lookups[name] = lookups[name].model_copy(update={**_OF_GIVEN, "table": str(file)})
    return replace(project, lookups=lookups)


def _as_table(lookup: Lookup, rows: Sequence[Mapping[str, Any]], test: LoadedTest) -> pa.Table:
    """The rows with the columns of the table. Raises DeclarationError for a value that is not of its type."""
    columns = {}
    for name, named in lookup.names_in_table.items():
        column, values = lookup.columns[name], []
        for place, row in enumerate(rows):
            cell = row.get(name)
            try:
                values.append(convert_cells(column, [cell])[0].as_py())
            except (ValueError, TypeError):
                path = ("lookups", lookup.name, str(place), name)
                raise DeclarationError(
                    f"{test.place(*path)}: {'.'.join(path)}: got {describe(cell)}, allowed is {describe_form(column)}"
                ) from None
        columns[named] = pa.array(values, convert_cells(column, []).type)
    return pa.table(columns)
