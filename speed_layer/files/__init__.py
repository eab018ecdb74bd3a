"""Reads rows of files as records: files that arrive in a folder, the commits of a Delta table, and imported history."""
