"""Runs all benchmarks, one after the other, and renews the page of their figures.

python -m benchmarks            takes minutes: small inputs, few rounds
python -m benchmarks --full     takes some two and a half hours: the inputs of the goals
"""

import subprocess
import sys

from rich.console import Console

from benchmarks import page
from benchmarks.running import parser_of


def main() -> int:
    given = parser_of("benchmarks", str(__doc__).splitlines()[0]).parse_args()
    arguments = ["--full"] if given.full else []
    console = Console()
    failed = []
    for name in page.BENCHMARKS:
        console.rule(name)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode:
            failed.append(name)
    console.print(f"the page: benchmarks/{page.PAGE}, with {page.PLOT}")
    if failed:
        console.print(f"failed: {', '.join(failed)}; their figures are those of an earlier run", style="red")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
