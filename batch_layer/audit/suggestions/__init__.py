"""Suggests expectations from past hours. They pass in all of these hours. Nothing starts Spark.

A comparison with past days may warn in some. Declared limits of a volume are repeated, whether or not they pass.

suggest.py       from the published results of a metric, or the archived events of a source
seen_rows.py     what their rows look like, column by column, counted by DuckDB
groups.py        the groups of these rows whose numbers differ
expectations.py  the expectations on such rows
history.py       the comparison with past days
volume.py        the bounds of a source's volume
as_yaml.py       all of it as YAML, with what was seen beside it
"""
