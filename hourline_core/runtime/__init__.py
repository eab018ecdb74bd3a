"""The processes of this machine: Java, Spark, Kafka, PostgreSQL and Airflow, with supervision, locks and leases."""
