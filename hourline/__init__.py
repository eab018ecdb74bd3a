"""Hourline: hourly results now, exact results after the hour."""
