"""Drift: what people saw of an hour before it was recomputed, against what they see from then on, split by cause.

A value goes through stages, each computed by itself. The cause in brackets explains what changes from one stage to the
next:

    at_close     what was served without the events that came after the hour had closed     [late]
    provisional  what was served last: both layers, merged at the cutoff                    [unexplained]
    expected     what should have been served: the archived events that had counted         [duplicate]
    distinct     the archived events, the first of each id                      [declaration, lookup]
    final        what the recompute gives, by the metric as it is declared now

A change of doubles within 1e-9 of what was added up is called ``rounding``. The stages ``expected`` and ``distinct``
cost a pass over the events; they are computed only for hours whose final value differs from the provisional one.
``unexplained`` is a fault: a tile that was lost, altered or counted twice. A declaration that is not served yet has no
drift until it is promoted; then all its hours have, at once.

measure.py                 the drift of one metric's hours in a publication, promotion included
by_cause.py                the stages compared in DuckDB
served_lookups.py          which versions of lookups the events were served with
stages_from_archive.py     the stages ``expected`` and ``distinct``, computed again from the archived events
"""
