"""What a piece of work leaves in its folder ends with it, also when its process is killed."""

import subprocess
import sys
from pathlib import Path

from hourline_core.runtime.scratch_folder import scratch_folder

_WORKS = """
import sys
from pathlib import Path
from hourline_core.runtime.scratch_folder import scratch_folder
with scratch_folder(Path(sys.argv[1]), "work") as folder:
    (folder / "rows").write_text("many")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folders_of_killed_processes_are_deleted_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WORKS, str(tmp_path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        folders = [Path(str(process.stdout and process.stdout.readline().strip())) for process in processes]
        killed, living = processes
        killed.kill()
        killed.wait()
        assert [(folder / "rows").exists() for folder in folders] == [True, True]
        with scratch_folder(tmp_path, "work") as own:
            assert [folder.exists() for folder in (*folders, own)] == [False, True, True]
        living.communicate("")
        assert not any((tmp_path / "run" / "work").iterdir())
    finally:
        for process in processes:
            process.kill()
            process.communicate()
