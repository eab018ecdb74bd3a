"""The machine does not matter: its locale, time zone, user, home and folder, and the variables of its environment. A
story in a strange place gives the same bytes as anywhere.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from hourline_core.runtime.broker import running_broker
from hourline_core.runtime.ports import free_ports
from tests.support.project_files import write_project

PATIENCE = 240.0
NAMELESS = "54321"
"""A user id that no machine has a name for."""
CHECKOUT = Path(__file__).parents[2]

FILES = {
    "hourline.yaml": "spark: {master: 'local[2]'}\nserve: {sql: true}\n",
    "sources/views.yaml": """
        topic: {pattern: "views_[ab]"}
        fields: {id: string, at: string, page: {type: string, required: true}, seconds: double}
        event_time: at
        id: id
        clock: event_time
        grace: 30m
    """,
    # `upper` is Spark's, and depends on the locale of its Java.
    "metrics/pages.yaml": """
        source: views
        dimensions: {page: upper(page), slow: seconds > 1.5}
        measures: {views: count, load: sum(seconds)}
        expectations:
          - expect_column_values_to_be_between: {column: views, max_value: 100}
    """,
}
RECORDS = [
    {"id": f"{hour}-{number}", "at": f"2026-03-02T{hour:02}:{number * 7:02}:00Z", "page": page, "seconds": number / 2}
    for hour in (8, 9)
    for number, page in enumerate(("éi", "ÉI", "ışık", "größe"))
]
# The clock believes a jump when further records confirm it.
CLOSING = [
    {"id": f"11-{number}", "at": f"2026-03-02T11:{number:02}:00Z", "page": "x\x1b[31m", "seconds": 12345.25}
    for number in range(4)
]


def rows(state: str) -> str:
    """The answer to ASKED, as one who has read RECORDS knows it."""
    lines = []
    for hour in ("08", "09"):
        for page, views, load, slow in (
            ("GRÖSSE", 1, "1.5", "false"),
            ("IŞIK", 1, "1.0", "false"),
            ("ÉI", 2, "0.5", "false"),
        ):
            lines.append(f"2026-03-02T{hour}:00:00.000000Z,{page},{slow},{views},{load},{state}")
    return "\n".join(["hour,page,slow,views,load,state", *lines, ""])


ASKED = "SELECT hour, page, slow, views, load, state FROM pages WHERE hour < '2026-03-02 11:00' ORDER BY ALL"


@dataclass
class Machine:
    """What is strange about it. A ``workspace`` is beside the project, which has it otherwise."""

    folder: str = "shop"
    locale: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    named: bool = True
    home: bool = True
    workspace: str = ""


MACHINES = {
    "cron": Machine("größe", "C", {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
    "turkish": Machine("my shop", "tr_TR.UTF-8", {"TZ": "Asia/Kolkata"}, named=False, home=False),
    "arabic": Machine("a#b&c", "ar_EG.UTF-8", {"JAVA_TOOL_OPTIONS": "-Duser.timezone=America/St_Johns"}, home=False),
    "latin": Machine(
        "50%20+x",
        "de_DE.ISO-8859-1",
        {"_JAVA_OPTIONS": "-Duser.language=tr -Duser.country=TR -Duser.language.format=ar"},
        named=False,
        workspace="w & ö",
    ),
    "java": Machine(
        "c:d ö",
        "C",
        {
            "JAVA_TOOL_OPTIONS": "-Duser.language=ar -Duser.country=EG -Dfile.encoding=ISO-8859-1",
            "TZ": "Asia/Kolkata",
        },
    ),
    "spark": Machine(
        "#1 & +ö:x",
        "xx_YY.UTF-8",  # which no machine has
        {
            "JDK_JAVA_OPTIONS": "-Duser.language=tr -Duser.region=TR -Duser.timezone=America/St_Johns",
            "SPARK_HOME": "/nonexistent",
            "SPARK_SUBMIT_OPTS": "-Duser.language=tr",
            "SPARK_LOCAL_DIRS": "/nonexistent/spark",
            "SPARK_REMOTE": "local",
            "PYSPARK_SUBMIT_ARGS": "--unknown",
            "PYTHONHASHSEED": "random",
            "PYTHONOPTIMIZE": "2",
            "PYTHONWARNINGS": "error",
        },
        named=False,
    ),
}


def compile_locale(name: str, folder: Path) -> None:
    """Have C libraries find the locale in ``folder``. Without the tool or its data, it is one that is not there."""
    language, _, encoding = name.partition(".")
    folder.mkdir()
    if encoding and shutil.which("localedef"):
        command = ["localedef", "-i", language, "-f", encoding, str(folder / name)]
        subprocess.run(command, check=False, capture_output=True)


class Story:
    """Runs commands on a machine."""

    def __init__(self, machine: Machine, place: Path, locales: Path) -> None:
        compile_locale(machine.locale, locales)
        self.project = place / machine.folder
        self.home = place / "home"
        self.temporary = place / "temporary"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LC_", "LANG", "HOURLINE_", "KAFKA", "XDG", "TZ")) and name not in ("HOME", "PWD")
        }
        self.environment = {
            **kept,
            "PYTHONPATH": str(CHECKOUT),
            "LOCPATH": str(locales),
            "TMPDIR": str(self.temporary),
            "HOURLINE_CACHE": os.environ.get("HOURLINE_CACHE", str(Path.home() / ".cache" / "hourline")),
            **({"LC_ALL": machine.locale} if machine.locale else {}),
            **machine.variables,
        }
        for folder in (self.home, self.temporary):
            folder.mkdir(parents=True)
        self.workspace = place / machine.workspace if machine.workspace else self.project / ".hourline"
        self.environment["HOURLINE_WORKSPACE"] = str(self.workspace)
        if machine.home:
            self.environment["HOME"] = str(self.home)
        # In a user namespace of its own, a process has any user id, and the files stay its own.
        self.prefix = [] if machine.named else ["unshare", "--user", f"--map-user={NAMELESS}"]

    def run(self, *arguments: str, status: int = 0) -> bytes:
        """The standard output of a command of Hourline, run in the folder of the project."""
        done = subprocess.run(
            [*self.prefix, sys.executable, "-m", "hourline", *arguments],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == status, (done.stdout + done.stderr).decode(errors="replace")
        return done.stdout

    def ask_over_http(self, sql: str) -> str:
        """The answer to free SQL as CSV: by the server, which has its sandbox compute it."""
        [port], token = free_ports(1), "admin-admin-admin-admin"
        environment = {**self.environment, "HOURLINE_ADMIN_TOKEN": token}
        command = [*self.prefix, sys.executable, "-m", "hourline", "serve", "--port", str(port)]
        with subprocess.Popen(command, cwd=self.project, env=environment, stdout=subprocess.PIPE) as server:
            assert server.stdout and b"is served at" in server.stdout.readline()
            head = {"Authorization": f"Bearer {token}"}
            url = f"http://127.0.0.1:{port}/api/v1/sql?format=csv"
            answer = httpx.post(url, json={"sql": sql}, headers=head, timeout=PATIENCE)
            server.terminate()
        assert answer.status_code == 200, answer.text
        return answer.content.decode()

    def make_topic(self, name: str) -> None:
        """Make a topic, which the speed layer finds by its pattern."""
        bootstrap = running_broker(self.workspace)
        assert bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        [made] = admin.create_topics([NewTopic(name, 1)]).values()
        made.result()

    def send(self, *records: Mapping[str, object], topic: str) -> None:
        (self.project / "sent.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
        self.run("replay", "sent.jsonl", "--source", "views", "--topic", topic)
        deadline = time.monotonic() + PATIENCE
        while json.loads(self.run("status", "--format", "json"))["sources"][0]["accepted"] < len(records):
            assert time.monotonic() < deadline, "the speed layer does not catch up"


@pytest.mark.long
@pytest.mark.parametrize("name", MACHINES)
def test_a_story_gives_the_same_bytes_on_any_machine(name: str, tmp_path: Path) -> None:
    of_an_hour = "SELECT page, views FROM pages WHERE hour = '2026-03-02 08:00' ORDER BY ALL"
    place = tmp_path / "place"
    story = Story(MACHINES[name], place, tmp_path / "locales")
    write_project(story.project, FILES)
    before = set(place.rglob("*"))
    try:
        story.run("up")
        story.make_topic("views_a")
        story.send(*RECORDS, *CLOSING, topic="views_a")
        assert story.run("query", ASKED, "-f", "csv").decode() == rows("provisional")
        story.run("recompute")
        assert story.run("query", ASKED, "-f", "csv").decode() == rows("final")
        assert story.run("query", "SELECT page FROM pages WHERE load > 9").split() == [b"page", b"X\\x1b[31M"]
        assert story.run("query", of_an_hour).decode().split() == [
            "page",
            "views",
            "GRÖSSE",
            "1",
            "IŞIK",
            "1",
            "ÉI",
            "2",
        ]
        assert story.ask_over_http(of_an_hour) == '"page","views"\n"GRÖSSE",1\n"IŞIK",1\n"ÉI",2\n'
        assert "(hours × metrics)" in story.run("quality").decode()
        assert "(hours × metrics)" in story.run("drift").decode()
        assert "GRÖSSE" in story.run("explain", "pages", "2026-03-02T08", "page=GRÖSSE").decode()
    finally:
        story.run("down")
    written = {path for path in place.rglob("*") if not path.is_relative_to(story.workspace)}
    assert written == {*before, story.project / "sent.jsonl"}
