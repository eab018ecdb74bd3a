"""``check``: finds mistakes in the declarations."""

from pathlib import Path

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import say
from hourline_core.errors import DeclarationError


def check(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Check all declarations: Spark resolves each expression, and Great Expectations looks up each expectation. Nothing
    is computed or written.
    """
    declared = load(project, workspace)
    from batch_layer.audit.expectation_mistakes import find_mistakes
    from hourline_core.compute.check import find_unresolved
    from hourline_core.runtime.spark import spark_session

    spark = spark_session(declared, "check", brief=True)
    try:
        mistakes = [*find_unresolved(spark, declared), *find_mistakes(declared)]
    finally:
        spark.stop()
    if mistakes:
        raise DeclarationError("\n".join(mistakes))
    say(f"{declared.name}: {len(declared.sources)} source(s), {len(declared.metrics)} metric(s), no mistakes")
