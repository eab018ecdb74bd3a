"""The aggregates that a measure can be."""
