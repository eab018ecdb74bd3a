"""The processes of this machine: Java and its jars, Spark, Kafka, PostgreSQL, Airflow; supervision, locks, leases."""
