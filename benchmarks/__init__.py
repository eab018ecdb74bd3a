"""Benchmarks: ratios within one run, measured after the answers were checked."""
