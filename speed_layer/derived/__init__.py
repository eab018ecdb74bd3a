"""Derives the events of a source from those of others: what joins and snapshots have in common.

The input is what the micro-batches of the other sources have finished, and their archives are the state.
"""
