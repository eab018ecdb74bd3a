"""The serving layer over HTTP: the same answers as `hourline query`, to clients that each get their share."""
