"""A number or a boolean in quotes is text: every setting that wants one refuses it, with its line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from hourline import load_project
from hourline_core.model.base import Declaration, QuotedText, wanted_without_quotes
from tests.support.declaration_mistakes import METRIC, SOURCE, mistakes


def of_numbers_and_booleans(model: type[BaseModel] = Declaration) -> Iterator[tuple[type[BaseModel], str]]:
    for kind in model.__subclasses__():
        yield from ((kind, name) for name, one in kind.model_fields.items() if wanted_without_quotes(one.annotation))
        yield from of_numbers_and_booleans(kind)


KNOWN = sorted(set(of_numbers_and_booleans()), key=lambda found: (found[0].__name__, found[1]))


def test_the_settings_with_numbers_and_booleans_are_found() -> None:
    names = {f"{kind.__name__}.{name}" for kind, name in KNOWN}
    assert {
        "KafkaSettings.port",
        "Volume.min",
        "Volume.late",
        "History.width",
        "Source.raw",
        "ShareBound.above",
    } <= names
    assert not names & {"Source.topic", "Metric.name", "History.severity", "SpeedSettings.trigger"}


@pytest.mark.parametrize(("kind", "name"), KNOWN)
@pytest.mark.parametrize("text", ["1", "true", "0.5"])
def test_each_of_them_refuses_quotes(kind: type[BaseModel], name: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate({name: QuotedText(text)})
    (error,) = [one for one in caught.value.errors() if one["loc"] == (name,)]
    assert error["msg"].startswith(f'got "{text}" in quotes, which is text, allowed is ')


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"hourline.yaml": 'kafka:\n  port: "9092"\n'},
            'hourline.yaml:2: kafka.port: got "9092" in quotes, which is text, allowed is a number without quotes',
        ),
        (
            {"hourline.yaml": "schedule: {catch_up: 'yes'}\n"},
            'hourline.yaml:1: schedule.catch_up: got "yes" in quotes, which is text, '
            "allowed is true or false without quotes",
        ),
        (
            {"sources/s.yaml": f"{SOURCE}findings:\n  rejected: '0.1'\n"},
            'sources/s.yaml:5: findings.rejected.above: got "0.1" in quotes, which is text, '
            "allowed is a number without quotes",
        ),
        (
            {"metrics/m.yaml": f"{METRIC}history:\n  width: |\n    5\n"},
            'metrics/m.yaml:4: history.width: got "5\\n" in quotes, which is text, allowed is a number without quotes',
        ),
    ],
)
def test_quotes_are_refused_with_their_line(tmp_path: Path, files: dict[str, str | bytes], said: str) -> None:
    assert mistakes(tmp_path, files) == [said]


def test_quotes_around_a_text_or_a_variable_change_nothing(tmp_path: Path) -> None:
    files = {
        "hourline.yaml": 'name: "2024"\nkafka: {port: "${PORT}"}\nbatch: {hours_per_job: "${HOURS:7}"}\n'
        'spark: {config: {spark.ui.enabled: "true"}}\nfindings: {ended: "off"}\n',
        "sources/s.yaml": 'topic: "2024"\nfields: {a: "timestamp", "on": string}\nevent_time: "a"\n',
        "metrics/m.yaml": 'source: s\nmeasures: {n: "count"}\nhistory: "off"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project = load_project(tmp_path, {"PORT": "9092"})
    assert (project.settings.kafka.port, project.settings.batch.hours_per_job) == (9092, 7)
    assert (project.settings.name, project.sources["s"].topic) == ("2024", "2024")
    assert type(project.settings.spark.config["spark.ui.enabled"]) is str
    assert (project.settings.findings.ended, project.metrics["m"].history.severity) == ("off", "off")
