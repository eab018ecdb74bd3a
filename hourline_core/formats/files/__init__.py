"""Files of records: CSV, JSON lines and Parquet, plain, compressed or zipped."""
