"""One Structured Streaming query per source."""
