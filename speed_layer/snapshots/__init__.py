"""Makes the rows that a table has at the end of each hour the events of a source.

The state is the last snapshot in the archive, and what the table's source has archived since.
"""
