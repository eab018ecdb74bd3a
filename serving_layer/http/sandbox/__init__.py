"""Free SQL over HTTP: each query runs in a process that can do nothing but compute.

The server knows ``sandbox.start_free_sql`` alone, and what ``serving_layer.http.sql_routes.FreeSql`` says of its result.
The package may be left out of an installation; then ``serve.sql`` cannot be on.
"""
