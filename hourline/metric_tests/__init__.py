"""Runs the tests of a project's metrics, without Kafka. ``run_tests`` combines reading the records in micro-batches,
recomputing them (``prepared_source``), merging both layers (``merged_tables``), and comparing rows (``expected_rows``).
"""
