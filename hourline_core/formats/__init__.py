"""Bytes to typed fields, and back."""
