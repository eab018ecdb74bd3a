"""How long old versions of a table can be read, by the properties that it is created with."""

KEPT_HOURS = 2
"""The longest that a query may take: so long a reader goes on with the versions it began with, and nothing that they
need is deleted.
"""

STREAMED = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
}
"""For tables with a commit about every second, read at their newest versions: each reader goes through all commits
since the last checkpoint, and through what a checkpoint knows of files that compaction has replaced; the log does not
grow for ever.
"""

PUBLISHED = {"delta.enableExpiredLogCleanup": "false"}
"""For tables read at a version that coverage pins: by itself, Delta's log cleanup would make an older version
unreadable in time.
"""
