"""Joins the events of two sources, which become the events of a third one.

The input is what the micro-batches of both have finished. The archives of both are the state of the join, so there is
none to rebuild at a start.
"""
