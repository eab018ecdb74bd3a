"""The tables of a source, and the commits that finish a micro-batch."""
