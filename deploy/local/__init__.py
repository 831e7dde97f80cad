"""The local stack: real Kafka, Redis, Flink and worker on free ports, with a clean stop."""
