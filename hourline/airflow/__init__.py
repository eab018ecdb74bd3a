"""What the files in `dags/` call."""
