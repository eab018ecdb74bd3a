"""TLS: the files of the certificate and its key."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hourline_core.errors import SetupError
from hourline_core.model import Project
from hourline_core.model.home_folder import expand_home


def tls_files(project: Project) -> tuple[Path, Path] | None:
    """The files of the certificate and its key. None: the server speaks without TLS."""
    settings = project.settings.serve
    if settings.certificate is None or settings.key is None:
        return None
    certificate, key = (project.root.absolute() / expand_home(file) for file in (settings.certificate, settings.key))
    return certificate, key


@contextmanager
def explaining_tls(files: tuple[Path, Path] | None) -> Iterator[None]:
    """Within the block, it becomes a SetupError if the certificate and its key, ``files``, cannot be read, or do not
    fit.
    """
    try:
        yield
    except OSError as error:  # ssl.SSLError is one, too.
        if not files:
            raise
        raise SetupError(
            f"TLS cannot be set up with {' and '.join(map(str, files))} (serve.certificate, serve.key): {error}"
        ) from None
