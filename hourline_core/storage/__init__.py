"""Delta tables as such: open and verify, commit on the expected version, compact, vacuum. Knows no metric."""
