"""DuckDB over a snapshot: attach the tables, merge the layers, tell the state of each hour."""
