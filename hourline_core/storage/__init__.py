"""Delta tables as such: opening and checking, commits on the expected version, compaction, vacuum. They know no
metric.
"""
