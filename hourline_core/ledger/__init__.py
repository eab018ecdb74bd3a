"""Decides what counts: progress, coverage and cutoffs, the snapshot of a read, its token, time travel. No engine."""
