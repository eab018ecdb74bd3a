"""What becomes of the records of a micro-batch, in the tasks that read them. No record reaches the driver.

record_plan.py      what Spark evaluates, or leaves to the tasks
micro_batch_size.py how large the next micro-batch may be, by the sizes of the records so far
tasks.py            runs the tasks, and cuts their records into chunks
native_records.py   evaluates records without Spark SQL
part_builder.py     archives, folds (compute/fold_tiles.py) and counts the records of one task
part.py             what the driver tells the tasks, and what they tell the driver
deduplication.py    which ids were seen before, in the driver
"""
