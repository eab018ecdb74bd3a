"""Free SQL over HTTP. Each query runs in a process that can only compute.

The server uses ``sandbox.start_free_sql`` and the interface ``serving_layer.http.free_sql.FreeSql``, and nothing else
of it. The package may be left out of an installation; then ``serve.sql`` cannot be on.
"""
