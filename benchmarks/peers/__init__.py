"""What Hourline is measured beside, where that is a program of its own."""
