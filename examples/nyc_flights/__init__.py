"""The example: all flights from New York on four days of January 2013, each reported when it actually left."""
