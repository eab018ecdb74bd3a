"""The failpoints, in an order in which processes on the same tables can be killed one after the other."""

# One process after the other on the same tables, each killed at the next place. What it leaves is what the next one has
# to mend.
CHAIN = [
    *(
        f"{side} create {table}"
        for table in ("progress", "events", "rejected", "provisional")
        for side in ("before", "after")
    ),
    *(
        f"{side} fence {table}"
        for table in ("progress", "events", "rejected", "provisional")
        for side in ("before", "after")
    ),
    *(
        f"{side} create {table}"
        for table in ("coverage", "staged", "final", "drift", "quality")
        for side in ("before", "after")
    ),
    *(
        place
        for table in ("events", "rejected", "provisional")
        # Only what an unfinished micro-batch has left is cleared away.
        for place in (
            f"before append {table}",
            f"after append {table}",
            f"before delete {table}",
            f"after delete {table}",
        )
    ),
    "before append progress",
    "after append progress",
    *(
        f"{side} {step} {table}"
        for table in ("events", "rejected", "progress", "provisional")
        for step in ("compact", "vacuum")
        for side in ("before", "after")
    ),
    "before overwrite staged",
    "after overwrite staged",
    "before append drift",
    "after append drift",
    # Only what an unfinished publication has left is deleted.
    "before delete drift",
    "after delete drift",
    "before append quality",
    "after append quality",
    "before delete quality",
    "after delete quality",
    "before overwrite final",
    "after overwrite final",
    # Only what an unfinished publication has left is restored away.
    "before restore final",
    "after restore final",
    "before overwrite coverage",
    "after overwrite coverage",
    "before overwrite progress",
    "after overwrite progress",
    "before widen events",
    "after widen events",
]
