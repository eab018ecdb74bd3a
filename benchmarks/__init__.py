"""What things cost: ratios within one run, after the answers were checked."""
