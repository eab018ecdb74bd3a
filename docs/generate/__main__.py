"""Writes the pages of the reference: ``python -m docs.generate``."""

from docs.generate import FOLDER, PAGES


def main() -> None:
    """Write every page into docs/reference."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
