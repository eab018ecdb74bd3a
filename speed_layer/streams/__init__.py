"""One Structured Streaming query for each source. One micro-batch is read while another is committed."""
