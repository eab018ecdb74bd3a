"""Records become accepted events, or are rejected with a reason. Nothing is dropped, and nothing raises."""
