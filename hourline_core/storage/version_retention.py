"""The time for which old versions of a table can be read, as properties of the table."""

KEPT_HOURS = 2
"""The maximum time of a query. For so long nothing is deleted that the versions it began with need."""

STREAMED = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
}
"""For tables with a commit about every second, read at their newest versions. Each reader goes through all commits
since the last checkpoint, and through a checkpoint's list of files that compaction has replaced. The log does not
grow for ever.
"""

PUBLISHED = {"delta.enableExpiredLogCleanup": "false"}
"""For tables read at a version that coverage pins. Delta's log cleanup would make an older version unreadable in
time.
"""
