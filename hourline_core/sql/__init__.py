"""DuckDB over a snapshot: attaches the tables, merges the layers, and computes the state of each hour."""
