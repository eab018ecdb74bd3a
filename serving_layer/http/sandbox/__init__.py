"""Free SQL over HTTP: each query runs in a process that can do nothing but compute."""
