"""``expectations suggest``: writes expectations that past hours fulfil. Starts no Spark."""

from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.declared_names import DeclaredName, find_declared
from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import say_raw
from hourline_core.model.hours import wall_clock

app = typer.Typer(
    name="expectations", help="Expectations, from past hours.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def suggest(
    name: DeclaredName,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    weeks: Annotated[
        int, typer.Option("--weeks", min=1, max=52, help="The number of weeks to look at, up to the newest hour.")
    ] = 4,
) -> None:
    """Suggest expectations from past hours, as YAML. They are ranges, sets, shares of null, volumes and unique values
    of the last weeks. A comment on each line has the observed figure.
    """
    declared = load(project, workspace)
    kind, name = find_declared(declared, name)
    from batch_layer.audit.suggestions.as_yaml import write_suggestion
    from batch_layer.audit.suggestions.suggest import suggest_for_metric, suggest_for_source

    if kind == "metric":
        metric = declared.metrics[name]
        text = write_suggestion(metric, suggest_for_metric(declared, metric, weeks, wall_clock))
    else:
        source = declared.sources[name]
        text = write_suggestion(source, suggest_for_source(declared, source, weeks, wall_clock))
    say_raw(text.removesuffix("\n"))
