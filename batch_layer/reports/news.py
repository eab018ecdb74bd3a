"""What is new since yesterday in the audits of one metric, or of a source's events."""

from collections import Counter
from datetime import datetime

from batch_layer.reports.site import shorten
from batch_layer.reports.trends import Trend
from batch_layer.reports.words import columns, sentence
from hourline_core.ledger.problems import NEW, counted


def list_news(trend: Trend, moment: datetime) -> list[str]:
    """Sentences on the day before ``moment`` (UTC): what was accepted and by whom, which hours were repaired, and which
    expectations were evaluated for the first time.
    """
    since = (moment - NEW).timestamp()
    of = trend.metric or f"{trend.source} (events)"
    told = []
    accepted = Counter(one.found or "" for one in trend.accepted.values() if one.audited >= since)
    told += [f"{of}: {counted(count, 'hour')} accepted by {shorten(words)}" for words, count in accepted.items()]
    if mended := sum(audited >= since for audited in trend.mended.values()):
        told.append(f"{of}: {counted(mended, 'hour')} repaired")
    began = min((one.audited for line in trend.lines for one in line.findings.values()), default=0)
    for line in trend.lines:
        first = min(one.audited for one in line.findings.values())
        if first >= since and began < since:
            told.append(f"{of}: first evaluated: {columns(line.newest)} {sentence(line.newest)}".rstrip())
    return told
