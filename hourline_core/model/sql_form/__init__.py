"""A metric as one SQL statement, ``sql: SELECT …``, which is read as the YAML form that it means.

``statement`` splits the text into its clauses, ``select_items`` and ``time_windows`` read their parts, and ``expand``
puts the result into the document. Expressions keep their text: both layers give it to Spark.
"""

from hourline_core.model.sql_form.expand import expand_sql

__all__ = ["expand_sql"]
