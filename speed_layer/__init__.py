"""The speed layer: reads Kafka, archives events, and writes provisional results.

Spark's tasks do the work on records. The driver commits what they have written and counted.

speed_layer.py     its life: one object with named states
state.py           the states, and which one may follow which
observer.py        the facts that it tells while it runs
spark_session.py   its Spark, and the warm-up
import_files.py    files instead of topics
kafka/             what is read of Kafka, and whether it is still what was read
intake/            what tasks do with records
commit/            the tables of a source, and the commits of a micro-batch
streams/           one Structured Streaming query for each source
recovery/          after a fault: what was lost, read again, or taken over
reset/             reading a source from another position, and making a derived source or a metric anew
"""
