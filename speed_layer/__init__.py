"""The speed layer: reads Kafka, validates and archives events, and writes provisional results."""
