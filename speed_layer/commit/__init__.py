"""The tables of a source, and the commits that finish a micro-batch: files and tiles first, progress last. The driver
commits what the tasks have written.
"""
