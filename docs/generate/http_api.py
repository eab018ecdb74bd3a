"""The page of the HTTP API, from the OpenAPI description that the server gives of itself."""

import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from docs.generate.markdown import code, first_sentence, heading, link, prose, table
from docs.generate.markdown import page as whole_page
from hourline_core.model import Project, Settings
from serving_layer.http.app import create_app

_INTRODUCTION = """
`hourline serve` answers these requests. [Serve results over HTTP](../guides/http.md) shows how to use them. The server
describes itself at `/api/v1/openapi.json`. All times are in UTC. A parameter that is a list may be given several times.
"""

_OBJECTS = "#/components/schemas/"


def page() -> str:
    """The page as Markdown."""
    api = _openapi()
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    shared = _shared_headers([operation for _, operation in operations])
    objects = dict(sorted(_objects(api, [operation for _, operation in operations])))
    return whole_page(
        "HTTP API",
        "serving_layer/http and serving_layer/reports",
        prose(_INTRODUCTION),
        table(["request", "answers"], [(_to(title), first_sentence(one["description"])) for title, one in operations]),
        *(text for title, operation in operations for text in _operation(title, operation, shared)),
        heading(2, "Headers"),
        f"These headers of a request are for every request but {_without(operations, shared)}.",
        table(["header", "type", "default", "meaning"], map(_parameter, shared.values())),
        heading(2, "Problems"),
        "A request that fails is answered with one of these statuses and a [Problem](#problem).",
        table(["status", "meaning"], _problems(operations[0][1])),
        heading(2, "Objects"),
        *(text for name, schema in objects.items() for text in _object(name, schema)),
    )


def _openapi() -> dict[str, Any]:
    """The description, for a project without sources."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder), Settings(name="hourline"), {}, {})
        return create_app(project, environ={}).openapi()


def _shared_headers(operations: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By name, the headers that several requests have."""
    headers = [one for each in operations for one in each.get("parameters", []) if one["in"] == "header"]
    names = Counter(one["name"] for one in headers)
    return {one["name"]: one for one in headers if names[one["name"]] > 1}


def _without(operations: Iterable[tuple[str, dict[str, Any]]], headers: Container[str]) -> str:
    """The requests that have none of ``headers``."""
    return ", ".join(
        _to(title)
        for title, operation in operations
        if not any(one["name"] in headers for one in operation.get("parameters", []))
    )


def _operation(title: str, operation: dict[str, Any], shared: Container[str]) -> list[str]:
    """What there is to say of one request, except for headers that are ``shared``."""
    parameters = [one for one in operation.get("parameters", []) if one["name"] not in shared]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    content = operation["responses"]["200"].get("content", {})
    answer = content.get("application/json", {}).get("schema")
    others = [code(media_type) for media_type in content if media_type != "application/json"]
    return [
        heading(2, title),
        prose(operation["description"]),
        f"The body is a {_type(body)}." if body else "",
        table(["parameter", "type", "default", "meaning"], [_parameter(one) for one in parameters]),
        f"The answer is {' or '.join([_type(answer)] * bool(answer) + others)}.",
    ]


def _parameter(parameter: dict[str, Any]) -> tuple[str, str, str, str]:
    schema = parameter["schema"]
    default = schema.get("default")
    shown = "required" if parameter["required"] else code(str(default).lower()) if default not in (None, [], "") else ""
    place = "" if parameter["in"] == "query" else f" ({parameter['in']})"
    kind = _type(schema).removesuffix(" or null")  # which is to leave it out
    return code(parameter["name"]) + place, kind, shown, parameter.get("description", "")


def _problems(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The statuses that every request may be answered with."""
    for status, response in operation["responses"].items():
        if _type(response.get("content", {}).get("application/json", {}).get("schema", {})) == _to("Problem"):
            yield status, f"{response['description']}."


def _objects(api: dict[str, Any], operations: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects that requests and answers are made of, with their names."""
    waiting: list[Any] = [
        [operation.get("requestBody"), [one for status, one in operation["responses"].items() if status != "422"]]
        for operation in operations
    ]
    known = set()
    while waiting:
        node = waiting.pop()
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        waiting.extend(children)
        name = node.get("$ref", "").removeprefix(_OBJECTS) if isinstance(node, dict) else ""
        if name and name not in known:
            known.add(name)
            schema = api["components"]["schemas"][name]
            waiting.append(schema)
            yield name, schema


def _object(name: str, schema: dict[str, Any]) -> list[str]:
    """What there is to say of one object."""
    rows = [(code(key), _type(one), one.get("description", "")) for key, one in schema["properties"].items()]
    return [heading(3, name), prose(schema["description"]), table(["key", "type", "meaning"], rows)]


def _type(schema: dict[str, Any]) -> str:
    """The type in words, with a link to an object."""
    match schema:
        case {"$ref": reference}:
            words = _to(reference.removeprefix(_OBJECTS))
        case {"anyOf": several}:
            words = " or ".join(_type(one) for one in several)
        case {"enum": values}:
            words = ", ".join(code(value) for value in values)
        case {"type": "array", "items": inner}:
            words = f"list of {_type(inner)}"
        case {"type": "object", "additionalProperties": dict(inner)}:
            words = f"object of {_type(inner)}"
        case {"format": "date-time"}:
            words = "time"
        case {"type": known}:
            words = {"string": "text", "boolean": "`true`, `false`"}.get(known, known)
        case _:
            words = "any value"
    return words


def _to(title: str) -> str:
    return link(title, title)
