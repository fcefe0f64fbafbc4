"""Takes planned ranges from Kafka to staged or committed rows, in this process or by Spark."""
