"""The bridge: Java classes that hand whole Kafka records to Python in frames, and back."""
