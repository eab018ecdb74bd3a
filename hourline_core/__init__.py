"""The code that the layers share. Each room imports only the rooms below it: compute, sql, ledger, storage, runtime,
formats, aggregates, model.
"""
