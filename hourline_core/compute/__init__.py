"""Spark expressions that both layers run: validation, derived fields, aggregation."""
