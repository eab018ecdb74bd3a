"""``python -m hourline``."""

from hourline.cli import main

main()
