"""After a fault: what was lost, read again, or taken over by another process."""
