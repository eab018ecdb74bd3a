"""Records that name the schema they were written by, which a schema registry has."""
