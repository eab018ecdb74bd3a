"""``show``: prints a metric's declaration. Needs neither Spark nor Java."""

import io
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml import YAML

from hourline.cli.options import ProjectFolder, load, require_known
from hourline.cli.output import say_raw


def show(
    metric: Annotated[str, typer.Argument(help="The metric to show.")],
    project: ProjectFolder = Path(),
) -> None:
    """Print a metric as YAML, also if it is declared in SQL."""
    from hourline_core.model import Metric

    declared = load(project, None)
    require_known("metric", metric, list(declared.all_metrics))
    content = declared.documents["metric", metric].content
    say_raw(_yaml({key: content[key] for key in ("name", "from", *Metric.model_fields) if key in content}))


def _yaml(content: dict[str, Any]) -> str:
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 10_000  # no line is broken
    yaml.dump(content, text)
    return text.getvalue().rstrip()
