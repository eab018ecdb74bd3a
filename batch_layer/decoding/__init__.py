"""Decodes archived records anew whose events another declaration has made.

After a recompute, an hour is what it would be if today's declaration had been there from the first record. The archive
keeps the bytes of each record for that. The speed layer alone writes the archive, so what is decoded anew lies in a
table of the batch layer, named by the decoding. It has a row for each event of the archive that another decoding made,
and for each event that such a record has now. So it is also the account of what became of them: a row has the hour that
the archive gives the event, and the hour that it has now. Either may be null.

A reset may bring the bytes of records whose events were archived without them. Then they are decoded anew where their
bytes are: the row has the sequence of the bytes, and beside it that of the event. Up to the first one, the event counts
as it was archived. So the table is complete up to a sequence, and never changes below it.

to_decode.py        the sources with such records, and up to which sequence they are decoded anew
decode_anew.py      extends the table up to a sequence, in chunks (chunks.py)
tasks.py            the tasks that decode, and write the files of the table
decode_records.py   decodes rows of the archive in a task
decode_by_spark.py  the same in Spark, where Spark SQL is needed
missing_bytes.py    the hours that lack the bytes of their records
changed_hours.py    the hours that it changes, and those that must be published at once
"""
