"""Predicts when Kafka deletes a record that is not committed."""
