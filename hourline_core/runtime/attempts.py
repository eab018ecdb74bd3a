"""Gives a Spark session the function that makes null of an error: Spark has it, and SQL has no name for it."""

from typing import Any

from pyspark.sql import SparkSession

from hourline_core.model.expressions import ATTEMPT


def register_attempt(spark: SparkSession) -> None:
    """Register ATTEMPT, by Spark's expression ``TryEval``, which the functions named `try_…` are made of."""
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    expression = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.TryEval")
    registries = getattr(getattr(catalyst.analysis, "FunctionRegistryBase$"), "MODULE$")
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    made = registries.build(ATTEMPT, none, jvm.scala.reflect.ClassTag.apply(expression))
    registry = spark._jsparkSession.sessionState().functionRegistry()
    registry.createOrReplaceTempFunction(ATTEMPT, made._2(), "scala_udf")
