"""Values of records become typed Arrow columns, in the same way for each format."""
