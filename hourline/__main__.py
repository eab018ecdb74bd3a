"""The program: the command ``hourline``, and ``python -m hourline``."""

import os
from typing import NoReturn

INTERRUPTED = 130
"""As in ``hourline.exit_status``, which is imported later."""


def main() -> NoReturn:
    """Run the command line, and end the process."""
    try:
        # The imports take a large part of a second. Ctrl-C may come meanwhile.
        from hourline.cli import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:
        os.write(2, b"hourline: interrupted\n")
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
