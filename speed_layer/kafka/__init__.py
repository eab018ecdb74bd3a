"""What is read of Kafka: the topics, and whether they are still the ones that were read."""
