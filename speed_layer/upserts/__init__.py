"""Makes the newest version of each key the events of a source, and takes the older ones back.

The state is the archive of the other source, as far as versions may replace each other.
"""
