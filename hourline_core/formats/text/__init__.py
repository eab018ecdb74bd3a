"""The decoder of records that are text, of which a regular expression takes the fields."""
