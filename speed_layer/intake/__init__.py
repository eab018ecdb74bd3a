"""What becomes of the records of a micro-batch: decoded, validated, archived, folded."""
