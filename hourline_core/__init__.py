"""What the layers share. Each room imports only the rooms below it: compute, sql, source_tables, storage, runtime,
formats, aggregates, model.
"""
