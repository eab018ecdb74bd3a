"""The example of sessions: clicks of a shop, and the visits that they make."""
