"""What each column of the tables and views means."""

from collections.abc import Mapping

_ADDRESS = {
    "topic_id": "Kafka's id of the topic, which a topic with the same name does not share; or the id of an imported "
    "file.",
    "topic": "The name of the topic, or of the imported file.",
    "partition": "The partition of the topic.",
    "offset": "The offset in the partition, or the number of the row in the file.",
}

_AUDITED = {
    "publication": "The number of the publication: the version of coverage that says what came of it.",
    "source": "The source.",
    "hour": "The hour.",
    "cutoff": "The sequence up to which the recompute counted events.",
}

_QUALITY = {
    **_AUDITED,
    "audited": "When the audit ran.",
    "metric": "The metric. Null: the expectation is on the source's events, and concerns all its metrics.",
    "declaration": "The hash of the metric's declaration.",
    "expectation": "The name in Great Expectations. `audit`: the audit itself failed. `accepted`: a person has "
    "overruled it.",
    "about": "The column, or columns, that the expectation is on.",
    "parameters": "The parameters of the expectation, as JSON.",
    "origin": "Who demands it: `declaration`, `user`, `history` or `person`.",
    "severity": "`fail` or `warn`.",
    "success": "Whether it was fulfilled.",
    "observed": "The number that was found. Null where there is none.",
    "lower": "The lower bound that was expected. Null where there is none.",
    "upper": "The upper bound that was expected. Null where there is none.",
    "unexpected": "The number of rows that failed.",
    "found": "What was found, in words.",
    "rows": "Some of the rows that failed, with their keys, as JSON.",
}

_CHANGED = {
    "at_close": "The value without late events, over all dimensions. Null where the measure is no number.",
    "provisional": "The value that was served last before the recompute.",
    "final": "The recomputed value.",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "events/SOURCE": {
        "sequence": "The number of the micro-batch that read the event.",
        **_ADDRESS,
        "event_time": "When the event happened.",
        "hour": "The start of the hour of `event_time`.",
        "duplicate": "Whether the speed layer has recognised it as a duplicate. A duplicate does not count.",
    },
    "rejected/SOURCE": {
        "sequence": "The number of the micro-batch that read the record.",
        **_ADDRESS,
        "arrived": "When the micro-batch that read the record was planned.",
        "reason": "Why it was rejected.",
        "key": "The record's key.",
        "value": "The record's value.",
    },
    "progress/SOURCE": {
        "sequence": "The number of the micro-batch. It strictly increases.",
        "topic_id": _ADDRESS["topic_id"],
        "topic": _ADDRESS["topic"],
        "offsets": "The first and the last offset that were read of each partition.",
        "position": "Null, except for a reset: the `offset` to go on at. The offsets from `unread` up to it are "
        "skipped.",
        "records": "The number of records read: accepted + rejected + duplicates + tombstones. A record that is read "
        "again "
        "after a reset is not counted again.",
        "accepted": "The number of accepted events.",
        "rejected": "The number of rejected records.",
        "duplicates": "The number of duplicates.",
        "tombstones": "The number of records without a value.",
        "hours": "The number of accepted events per hour. `late` counts those whose hour had closed before.",
        "metrics": "The metrics whose tiles the micro-batch wrote. Their provisional rows are complete from the "
        "sequence "
        "`complete_from` on.",
        "clock": "The highest accepted event time so far.",
        "started": "When the micro-batch began.",
        "finished": "When the micro-batch was finished.",
    },
    "coverage": {
        "metric": "The metric.",
        "declaration": "The hash of the metric's declaration.",
        "source": "The metric's source.",
        "hour": "The hour. Null in rows about the declaration as a whole: with a `cutoff`, it was promoted to the "
        "metric's "
        "name; without, `version` is final after a compaction.",
        "cutoff": "The sequence up to which the published recompute counted events. Null: the hour was never "
        "published.",
        "version": "The version of the final table. The highest one of a declaration counts, for all its hours.",
        "published": "When it was published.",
        "blocked_cutoff": "Null, except for a blocked hour: the cutoff of the recompute that did not pass its audit.",
        "staged": "Null, except for a blocked hour: the version of the staged table that holds the rows of that "
        "recompute.",
        "expectations": "Null, except for a blocked hour: the hash of the expectations that it was audited with. "
        "Empty: "
        "the audit itself failed.",
    },
    "drift": {
        **_AUDITED,
        "published": "When it was published.",
        "metric": "The metric.",
        "declaration": "The hash of the metric's declaration.",
        "measure": "The measure.",
        **_CHANGED,
        "causes": "The causes of the change: the amount over all dimensions, and the number of groups that changed.",
    },
    "quality": _QUALITY,
    "checksums": {
        "table": "The path of the table below the root.",
        "file": "The path of the file below the table.",
        "checksum": "BLAKE2b of 128 bits, in hexadecimal digits.",
        "seen": "When it was computed.",
    },
}
"""By table, and by column. ``docs.generate.tables`` fails if a column is missing here, or no longer there."""

VIEW_MEANINGS: Mapping[str, Mapping[str, str]] = {
    "hours": {
        "kind": "`source` or `metric`.",
        "name": "The name of the source or metric.",
        "hour": "The hour.",
        "state": "`final`, `revised`, `provisional`, `blocked` or `missing`; of a source, the weakest of its "
        "metrics. Null: "
        "the source has no metric.",
        "events": "The number of accepted events of the source in the hour.",
        "late": "How many of them arrived after the hour had closed.",
        "closed": "Whether the hour has closed.",
    },
    "late_events": {
        "source": "The source.",
        "hour": "The hour.",
        "event_time": "When the event happened.",
        "late_seconds": "How far it was behind its source's clock.",
        "arrived": "When the micro-batch that read it began.",
        "sequence": "The number of that micro-batch.",
        **{name: text for name, text in _ADDRESS.items() if name != "topic_id"},
    },
    "drift": {
        **{name: text for name, text in _AUDITED.items() if name != "publication"},
        "metric": "The metric.",
        "measure": "The measure.",
        "cause": "`late`, `duplicate`, `declaration`, `rounding` or `unexplained`. Null: nothing changed.",
        "amount": "The change by this cause, over all dimensions. Null where the measure is no number.",
        "cells": "The number of groups that changed.",
        **_CHANGED,
        "published": "When it was published.",
    },
    "publications": {
        "publication": "The number of the publication. Null: it was published before drift was recorded.",
        "published": "When it was published.",
        "source": "The source.",
        "metric": "The metric.",
        "hour": "The hour.",
        "cutoff": "The sequence up to which the recompute counted events.",
        "current": "Whether it is the publication that counts.",
    },
    "quality": {name: text for name, text in _QUALITY.items() if name != "declaration"},
}
"""By view, and by column."""
