"""The decoder of records that are one row of CSV each."""
