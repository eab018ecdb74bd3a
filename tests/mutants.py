"""`make mutants`: breaks each rule of the protocol in the product's own code, one at a time, and shows that some test
turns red.

    python tests/mutants.py            all of them
    python tests/mutants.py restore    those whose name contains a word

The rules are in tests/mutants, in one file for each room. Each is broken in a copy of the checkout. It counts as red
when an assertion of a test has failed, or the product has raised an error of its own. A mutant that no test notices is
a failure of this run. So is a broken mutant, which raises anything else, or whose line is no longer there: such code is
red whatever the tests are worth.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).parents[1]
MISTAKES = (
    "AttributeError",
    "ImportError",
    "IndentationError",
    "ModuleNotFoundError",
    "NameError",
    "SyntaxError",
    "TypeError",
    "UnboundLocalError",
)
COPIED = (
    "batch_layer",
    "dags",
    "examples",
    "hourline",
    "hourline_core",
    "infra",
    "serving_layer",
    "speed_layer",
    "tests",
    "pyproject.toml",
)


@dataclass(frozen=True)
class Mutant:
    """One rule broken."""

    rule: str
    file: str
    tests: str
    """What ought to notice, as arguments of pytest."""
    changes: tuple[tuple[str, str], ...]
    """What is changed in the file: each old text, which is there once, and the new one."""


MUTANTS = [
    Mutant(one["rule"], one["file"], one["tests"], tuple((change["old"], change["new"]) for change in one["changes"]))
    for table in sorted((ROOT / "tests" / "mutants").glob("*.toml"))
    for one in tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]
]


class Verdict(NamedTuple):
    word: Literal["red", "ALIVE", "BROKEN"]
    what: str
    """Which test turned red, or what is wrong with the mutant."""


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.rule for word in words)]
    red, broken = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for mutant in chosen:
            began = time.monotonic()
            verdict = noticed(mutant, Path(folder) / "copy")
            print(f"{verdict.word:<6} {mutant.rule:<62} {time.monotonic() - began:4.0f} s  {verdict.what}", flush=True)  # noqa: T201
            red += verdict.word == "red"
            broken += [(mutant.rule, verdict.what)] if verdict.word == "BROKEN" else []
    print(f"{red} of {len(chosen)} broken rules turned a test red")  # noqa: T201
    for rule, what in broken:
        print(f"the mutant '{rule}' is broken itself and proves nothing: {what}")  # noqa: T201
    return red < len(chosen) or not chosen


def noticed(mutant: Mutant, copy: Path) -> Verdict:
    """What the tests say of a mutant, in a copy of the checkout."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".hourline"))
        else:
            shutil.copy(source, copy / name)
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    for old, new in mutant.changes:
        if text.count(old) != 1:
            return Verdict(
                "BROKEN", f"{mutant.file} has {text.count(old)} times, and ought to have once: {old.strip()}"
            )
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    reasons = copy / "reasons"
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "HYPOTHESIS_PROFILE": "mutants",
        "PROTOCOL_EXAMPLES": "100",
        "RED_REASONS": str(reasons),
    }
    command = f"{sys.executable} -m pytest -p no:cacheprovider -p tests.support.red_reasons -q -x {mutant.tests}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return Verdict("ALIVE", "")
    failures = (
        [json.loads(line) for line in reasons.read_text(encoding="utf-8").splitlines()] if reasons.exists() else []
    )
    if broken := [f"{failure['broken']} ({failure['test']})" for failure in failures if failure["broken"]]:
        return Verdict("BROKEN", broken[0])
    if mistake := mistake_told(done.stdout, mutant.file):
        return Verdict("BROKEN", f"{mistake} (in a process that a test has started)")
    if done.returncode != 1 or not failures:
        return Verdict("BROKEN", f"the tests did not run: {(done.stdout + done.stderr)[-2000:]}")
    return Verdict("red", failures[0]["test"])


def mistake_told(output: str, file: str) -> str:
    """The mistake in ``file`` by which some other process has ended, by what that has said; empty if there is none: a
    test sees its end alone.
    """
    frame = rf'File "[^"]*{re.escape(file)}", line \d+(?:, in .*)?\n'
    found = re.search(rf"{frame}(?:(?:E  )? {{3,}}.*\n)*(?:E +)?((?:{'|'.join(MISTAKES)})\b.*)", output)
    return f"{found[1]} in {file}" if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
