"""Typed answers about hours: status, late events, drift, quality, lineage."""
