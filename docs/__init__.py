"""The documentation, and the generator of its reference."""
