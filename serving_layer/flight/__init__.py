"""Arrow Flight SQL: the free SQL of the HTTP server for BI tools and notebooks, over gRPC. ``endpoint.py`` listens,
``service.py`` has the calls.
"""
