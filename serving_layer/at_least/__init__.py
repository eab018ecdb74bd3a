"""Answers that count at least what a producer was told is written."""
