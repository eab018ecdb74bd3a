"""Lookups: tables of somebody else, whose rows expressions name.

read_table.py     reads the table that a lookup declares: one function for each kind of table
read_csv.py       reads a CSV file of it, by the rules of imported ones
read_postgres.py  reads a table of PostgreSQL
read_source.py    reads a source as a table (KTable)
rows.py           what a refresh takes: typed, sorted rows, of which at most one fits an event
limited_memory.py how it sorts and compares more rows than fit in memory
versions.py       the Delta table of ours with each content that a refresh has read
version_files.py  the files of a version, which it may share with the one before
refresh.py        reads a table again, and commits what is new
join.py           finds the rows that events have
loaded.py         the rows of a version, in memory
stored.py         those of a large version, which stay in its files
pinning.py        which versions a job or a micro-batch uses
changes.py        the keys whose events meet other rows in one version than in another
as_of.py          which versions were the newest ones at an earlier moment
"""
