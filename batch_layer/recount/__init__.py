"""A recount: the values of published hours a second time, by code that shares as little as possible with a recompute.

Spark decodes, and evaluates expressions over one event. All that concerns several events is plain Python: which event
of an id is the first, the cutoff, the groups, and every aggregate. No state is stored or merged.

published_hours.py   which hours: those of a range, or some at random
read_rows.py         the events of an hour from the archive, each with the values of the declared expressions
counted.py           which of them count
folds.py             one small class for each aggregate; number_folds.py for those of numbers, class_folds.py for users'
compare.py           the values of the groups beside the published ones
recount.py           all of it, hour by hour
"""
