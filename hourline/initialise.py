"""The work of ``hourline init``: a small project that works."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from hourline_core.errors import UsageError

_WITHOUT_EXAMPLES = Path("hourline.yaml")
_FOLDERS = ("sources", "metrics", "tests")


def initialise(folder: Path, *, empty: bool = False) -> list[Path]:
    """Write the template project into ``folder``, which is created if missing, and return the written paths, sorted.
    ``empty``: only its settings, and the folders for the declarations.

    Raises UsageError, and writes nothing, when one of its files exists; UsageError too when the folder cannot be
    written to.
    """
    template = resources.files("hourline") / "init_template"
    content = {folder / relative: source.read_bytes() for relative, source in _files_below(template, Path())}
    if empty:
        content = {path: text for path, text in content.items() if path == folder / _WITHOUT_EXAMPLES}
    there = sorted(str(path) for path in content if path.exists())
    if there:
        raise UsageError(
            f"{', '.join(there)} is already there and is not overwritten: "
            "choose another folder, as in `hourline init FOLDER`"
        )
    try:
        for path, text in content.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        for name in _FOLDERS:
            (folder / name).mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"a project cannot be written into {folder}: {error.filename}: {error.strerror}") from None
    return sorted(content)


def _files_below(folder: Traversable, relative: Path) -> list[tuple[Path, Traversable]]:
    """Each file with its path below the template."""
    files = []
    for entry in folder.iterdir():
        if entry.is_dir():
            files += _files_below(entry, relative / entry.name)
        else:
            files.append((relative / entry.name, entry))
    return files
