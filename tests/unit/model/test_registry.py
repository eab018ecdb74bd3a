"""A project says which sources ask the schema registry, and how."""

import pickle
from pathlib import Path

from hourline import load_project
from hourline_core.model import Source
from hourline_core.model.decoding import decoding_of, describe_changes
from hourline_core.model.registry import RegistryAccess
from tests.support.declaration_mistakes import METRIC, mistakes

SCHEMA = '{"type": "record", "name": "S", "fields": [{"name": "a", "type": "string"}]}'
SETTINGS = "registry: {url: 'https://registry:8081/', user: '${REGISTRY_USER}', password: '${REGISTRY_PASSWORD}', ca: ca.pem}\n"
ENVIRONMENT = {"REGISTRY_USER": "reader", "REGISTRY_PASSWORD": "123456"}


def source(format: str) -> str:
    return f"topic: t{len(format)}\nformat: {format}\nevent_time: a\n"


def test_a_source_that_names_the_registry_needs_one(tmp_path: Path) -> None:
    files = {"schemas/s.avsc": SCHEMA, "sources/s.yaml": source("{avro: {schema: s.avsc, registry: true}}")}
    assert mistakes(tmp_path, dict(files)) == [
        "sources/s.yaml:2: format: got registry: true, but hourline.yaml has no registry; declare its address there, "
        "`registry: {url: https://HOST:PORT}`"
    ]


def test_the_registry_is_that_of_the_settings_with_secrets_of_the_environment(tmp_path: Path) -> None:
    formats = {"s": "{avro: {schema: s.avsc, registry: true}}", "alone": "{avro: {schema: s.avsc}}"}
    files = {f"sources/{name}.yaml": source(format) for name, format in formats.items()}
    files |= {"hourline.yaml": SETTINGS, "schemas/s.avsc": SCHEMA, "metrics/m.yaml": METRIC}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project = load_project(tmp_path, ENVIRONMENT)
    bound, alone = (project.sources[name] for name in formats)
    access = pickle.loads(pickle.dumps(bound)).format.registry  # noqa: S301 (of this test)
    assert isinstance(access, RegistryAccess)
    assert (access.url, access.user, access.password) == ("https://registry:8081", "reader", "123456")
    assert access.ca == str(tmp_path / "ca.pem")
    assert Path(access.folder).parent == project.workspace / "schemas"
    assert alone.format.registry is None
    assert "123456" not in f"{project!r} {bound!r} {access!r} {bound.model_dump()} {decoding_of(bound)}"
    assert decoding_of(bound).hash != decoding_of(alone).hash
    (tmp_path / "hourline.yaml").write_text("registry: {url: http://other}\n")
    other = load_project(tmp_path, {}).sources["s"]
    assert decoding_of(other).hash == decoding_of(bound).hash, "the address does not decide what a record says"
    assert other.format.registry
    assert other.format.registry.folder != access.folder, "another registry has other schemas by the same ids"


def test_fields_of_json_do_not_follow_from_a_registry(tmp_path: Path) -> None:
    files = {
        "sources/s.yaml": source("{json: {registry: true}}"),
        "hourline.yaml": "registry: {url: 'http://r:8081'}\n",
    }
    assert mistakes(tmp_path, dict(files)) == [
        "sources/s.yaml:1: fields: got no fields, and none follow from the schemas of JSON in a registry; declare them, "
        "`fields: {name: type}`"
    ]


def test_a_changed_use_of_the_registry_is_another_decoding() -> None:
    declared = {"name": "s", "topic": "t", "event_time": "a", "fields": {"a": "string"}}
    plain, registered, csv = (
        decoding_of(Source.model_validate({**declared, "format": format}))
        for format in ("json", {"json": {"registry": True}}, {"csv": {"columns": ["a"]}})
    )
    assert describe_changes(plain, registered) == ["registry of the format json is another one"]
    assert describe_changes(registered, csv) == ["the format, which was json, is csv"]
    assert len({plain.hash, registered.hash, csv.hash}) == 3
