"""``python -m hourline_core.runtime.class_training`` makes the class archives (see `class_archives.py`).

It is the last step of set-up. At its end, Java archives the classes that it has loaded. So Kafka writes and reads some
records, and Spark runs a small version of the work of both layers on them.

A process of its own does the work: ``class_training FOLDER``. It ends with this process, and at the time limit. Spark's
Java is in its process group and is killed with it. Kafka's notices its end, and then ends within 20 s.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from rich.console import Console

from hourline_core.child_environment import child_environment
from hourline_core.errors import BrokerError, HourlineError, SetupError
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.class_archives import class_archive
from hourline_core.runtime.file_lock import hold_lock
from hourline_core.runtime.jars import JarSet, fetch_jars
from hourline_core.runtime.java import find_java
from hourline_core.runtime.spark import spark_session, stop_spark
from hourline_core.runtime.supervised import Supervised
from hourline_core.runtime.topics import ensure_topic

RECORDS = 100
_ENDED_WITHIN_SECONDS = 120
_TRAINED_WITHIN_SECONDS = 300
TOPIC = "training"
SOURCE = Source(
    name="training",
    topic=TOPIC,
    fields={"a": Field(type="int")},
    event_time=EventTime(expression="a", encoding="epoch_seconds"),
)


def main() -> int:
    console = Console(stderr=True)
    folder = class_archive("spark").parent
    try:
        with (
            hold_lock(folder / "lock", "prepares these classes"),
            console.status("preparing the classes of Kafka and Spark, for faster starts"),
        ):
            for old in (*folder.glob("*.jsa"), *folder.glob("*.part")):
                old.unlink()
            shutil.rmtree(folder / "training", ignore_errors=True)
            run_supervised(
                [sys.executable, "-m", "hourline_core.runtime.class_training", str(folder / "training")],
                folder / "training" / "logs" / "training.log",
                _TRAINED_WITHIN_SECONDS,
            )
            shutil.rmtree(folder / "training")  # after an error it stays, for its logs
    except (HourlineError, OSError) as error:
        console.print(
            f"the classes could not be prepared, so starts take longer: {error}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    return 0


def run_supervised(command: list[str], log: Path, seconds: float) -> None:
    """Run ``command`` for at most ``seconds``. Its process group ends with this process at the latest.

    Raises SetupError when it fails or takes longer.
    """
    with Supervised(command, log=log, grace=1.0) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise SetupError(
                f"the preparation took more than {seconds:.0f} s, and was ended (its log is {log})"
            ) from None
    if status != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), f"status {status}")
        raise SetupError(f"{last} (its log is {log})")


def train_in(folder: Path) -> int:
    """Make both archives, with ``folder`` for what the work leaves."""
    settings = Settings.model_validate({"spark": {"master": "local[2]"}})
    train(Project(folder, settings, {SOURCE.name: SOURCE}, {}))
    return 0


def train(project: Project) -> None:
    """Make both archives. None may exist yet, since Java would use them and not write new ones. Raises SetupError."""
    with Broker(project.workspace, java_options=archive_options("broker")) as broker:
        send(broker.bootstrap)
        spark = spark_session(
            project, "training", {"spark.driver.extraJavaOptions": shlex.join(archive_options("spark"))}
        )
        java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        try:
            compute(spark, broker.bootstrap, project.workspace)
            class_path = spark.sparkContext._jvm.System.getProperty("java.class.path")  # type: ignore[union-attr]
        finally:
            stop_spark(spark)
            try:
                java.communicate(timeout=_ENDED_WITHIN_SECONDS)  # Java ends when its input is closed
            finally:
                java.kill()  # which does nothing if it has ended
    install_archive("spark", class_path)
    install_archive("broker", os.pathsep.join(map(str, fetch_jars("broker"))))


def archive_options(which: JarSet) -> list[str]:
    """The options for a Java that archives its loaded classes when it ends.

    It runs for a minute only, so its second compiler is off.
    """
    return [f"-XX:ArchiveClassesAtExit={_partial_archive(which)}", "-XX:TieredStopAtLevel=1"]


def install_archive(which: JarSet, class_path: str) -> None:
    """Put a written archive in place if it is complete. Java would crash on an incomplete one. Raises SetupError."""
    written = _partial_archive(which)
    options = [
        "-Xshare:on",
        "-XX:+VerifySharedSpaces",
        f"-XX:ErrorFile={os.devnull}",
        f"-XX:SharedArchiveFile={written}",
    ]
    command = [str(find_java()), *options, "-cp", class_path, "-version"]
    done = subprocess.run(
        command,
        env=child_environment(),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_ENDED_WITHIN_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        written.unlink(missing_ok=True)
        raise SetupError(f"Java wrote no valid archive for {which}: {(done.stdout + done.stderr).strip()}")
    with written.open("rb") as file:
        os.fsync(file.fileno())
    written.replace(class_archive(which))


def _partial_archive(which: JarSet) -> Path:
    return class_archive(which).with_suffix(".part")


def send(bootstrap: str) -> None:
    """Fill the topic."""
    ensure_topic(bootstrap, TOPIC, 1, {})
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, f'{{"a": {number}, "b": "text"}}'.encode())
    if producer.flush(30):
        raise BrokerError("Kafka did not take the records")


def compute(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    """Run what the layers run: parse a stream of records, store each micro-batch, read a Delta table."""
    events = str(folder / "events")

    def micro_batch(records: DataFrame, _: int) -> None:
        write_deltalake(events, records.toArrow(), mode="append")

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    body = F.from_json(F.col("value").cast("string"), "a bigint, b string, _corrupt string")
    records = (
        spark.readStream.format("kafka").options(**options).load().select("partition", "offset", body.alias("body"))
    )
    stream = records.withColumn("at", F.timestamp_seconds("body.a")).writeStream.foreachBatch(micro_batch)
    stream.option("checkpointLocation", str(folder / "checkpoints")).trigger(
        availableNow=True
    ).start().awaitTermination()
    archived = spark.read.format("delta").load(events).where("offset >= 0")
    numbered = archived.withColumn(
        "first", F.row_number().over(Window.partitionBy("at", "body.a").orderBy("offset")) == 1
    )
    numbered.where("first").groupBy("body.b").agg(F.count("*"), F.sum("body.a")).toArrow()


if __name__ == "__main__":
    sys.exit(train_in(Path(sys.argv[1])) if sys.argv[1:] else main())
