"""Collects what a process of a project works with, for the sentence about a fault."""

from pathlib import Path

from hourline_core.machine import Surroundings
from hourline_core.model import Project


def surroundings_of(project: Project, kafka: str | None = None) -> Surroundings:
    """The workspace, the tables if they are on this machine, Kafka (``kafka``, or the one in the settings), and the
    memory of Java and of Spark's Python workers.
    """
    folders = [project.workspace, *([] if "://" in project.tables else [Path(project.tables)])]
    spark = project.settings.spark
    address = kafka or project.settings.kafka.bootstrap
    return Surroundings(folders, address, spark.driver_memory, spark.worker_memory)
