"""What counts: progress, coverage and cutoffs, the snapshot of a read, its token, and time travel. No engine."""
