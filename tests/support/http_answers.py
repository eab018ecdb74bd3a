"""What was sent to the tables behind a server, and answers of the server as Python has them."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx

from tests.support.visits_tables import some_visits

VISITS = some_visits(60)
KEYS = ("hour", "page", "size")


def rows(answer: httpx.Response, *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By keys, the measures of an answer in JSON."""
    assert answer.status_code == 200, answer.text
    found = {}
    for row in answer.json()["rows"]:
        key = tuple(datetime.fromisoformat(row[name]) if name == "hour" else row[name] for name in keys)
        found[key] = {name: value for name, value in row.items() if name not in (*keys, "state")}
    assert len(found) == len(answer.json()["rows"])
    return found


def next_token(lines: Iterator[str]) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """The hours that are told before the next token, and what is told with it."""
    hours: list[dict[str, str]] = []
    event = ""
    for line in lines:
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            if event == "token":
                return hours, data
            hours.append(data)
    raise AssertionError("the stream has ended")


def wait_for(client: httpx.Client, token: str) -> bool:
    """Whether the server comes to this token; it tells so itself."""
    with client.stream("GET", "/api/v1/changes") as stream:
        lines = stream.iter_lines()
        return any(next_token(lines)[1]["token"] == token for _ in range(10))
