"""``python -m infra.class_training`` makes the class archives (see `class_archives.py`), which is the last thing that set-up does.

What Java has loaded when it ends goes into its archive: so Kafka takes and gives some records, and Spark does with them, in small, what both layers
do.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

from confluent_kafka import Producer
from deltalake import write_deltalake
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from rich.console import Console

from hourline.declarations import EventTime, Field, Project, Settings, Source
from hourline.errors import HourlineError, SetupError
from infra.broker import Broker
from infra.class_archives import class_archive
from infra.jars import JarSet, fetch_jars
from infra.java import find_java
from infra.spark import spark_session
from infra.topics import ensure_topic

RECORDS = 100
SOURCE = Source(name="training", topic="training", fields={"a": Field(type="int")}, event_time=EventTime(expression="a", encoding="epoch_seconds"))


def main() -> int:
    console = Console(stderr=True)
    try:
        with tempfile.TemporaryDirectory() as folder, console.status("preparing the classes of Kafka and Spark, for faster starts"):
            train(Project(Path(folder), Settings.model_validate({"spark": {"master": "local[2]"}}), {SOURCE.name: SOURCE}, {}))
    except (HourlineError, OSError, PySparkException, Py4JError) as error:
        console.print(f"the classes could not be prepared, so starts take longer: {error}", style="yellow", markup=False, soft_wrap=True)
    return 0


def train(project: Project) -> None:
    """Make both archives. Raises SetupError."""
    for which in get_args(JarSet):
        class_archive(which).parent.mkdir(exist_ok=True)
        class_archive(which).unlink(missing_ok=True)  # or Java would use it, and add nothing to it
    os.environ["JDK_JAVA_OPTIONS"] = kept_at_exit("broker")
    with Broker(project.workspace) as broker:
        del os.environ["JDK_JAVA_OPTIONS"]
        send(broker.bootstrap)
        spark = spark_session(project, "training", {"spark.driver.extraJavaOptions": kept_at_exit("spark")})
        compute(spark, broker.bootstrap, project.workspace)
        class_path = spark.sparkContext._jvm.System.getProperty("java.class.path")  # type: ignore[union-attr]
        java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        java.communicate()  # closes its input, at which it ends
    keep("spark", class_path)
    keep("broker", os.pathsep.join(map(str, fetch_jars("broker"))))


def kept_at_exit(which: JarSet) -> str:
    """The options of a Java that is to write what it has loaded when it ends; in the minute that it lives, its second compiler gives nothing."""
    return shlex.join([f"-XX:ArchiveClassesAtExit={_written(which)}", "-XX:TieredStopAtLevel=1"])


def keep(which: JarSet, class_path: str) -> None:
    """Have what a Java wrote used from now on, if it is whole. Raises SetupError."""
    written = _written(which)
    options = ["-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={written}", "-cp", class_path, "-version"]
    done = subprocess.run([find_java(), *options], capture_output=True, text=True, errors="replace", cwd=written.parent, check=False)
    if done.returncode != 0:
        written.unlink(missing_ok=True)
        raise SetupError(f"Java wrote no sound archive for {which}: {(done.stdout + done.stderr).strip()}")
    written.replace(class_archive(which))


def _written(which: JarSet) -> Path:
    return class_archive(which).with_suffix(".part")


def send(bootstrap: str) -> None:
    """Fill the topic."""
    ensure_topic(bootstrap, SOURCE.topic, 1, {})
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(SOURCE.topic, f'{{"a": {number}, "b": "text"}}'.encode())
    producer.flush()


def compute(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    """What the layers have Spark do: parse a stream of records, keep and aggregate each micro-batch, and read a Delta table."""
    events = str(folder / "events")

    def micro_batch(records: DataFrame, _: int) -> None:
        records = records.persist()
        write_deltalake(events, records.toArrow(), mode="append")
        records.groupBy(F.window("at", "1 hour").start, "body.b").agg(F.count("*"), F.sum("body.a"), F.max("offset")).toArrow()
        records.unpersist()

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": SOURCE.topic, "startingOffsets": "earliest"}
    body = F.from_json(F.col("value").cast("string"), "a bigint, b string, _corrupt string")
    records = spark.readStream.format("kafka").options(**options).load().select("partition", "offset", body.alias("body"))
    stream = records.withColumn("at", F.timestamp_seconds("body.a")).writeStream.foreachBatch(micro_batch)
    stream.option("checkpointLocation", str(folder / "checkpoints")).trigger(availableNow=True).start().awaitTermination()
    archived = spark.read.format("delta").load(events).where("offset >= 0")
    numbered = archived.withColumn("first", F.row_number().over(Window.partitionBy("at", "body.a").orderBy("offset")) == 1)
    numbered.where("first").groupBy("body.b").agg(F.count("*"), F.sum("body.a")).toArrow()


if __name__ == "__main__":
    sys.exit(main())
