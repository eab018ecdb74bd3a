"""Peers of the benchmarks that are separate programs."""
