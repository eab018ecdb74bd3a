"""The example: every flight that left New York on four days of January 2013, reported when it actually left."""
