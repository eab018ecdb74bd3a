"""After a fault or a reset: what was lost, read again, or taken over by another process."""
