"""Writes Kafka records to Postgres in gap-checked batches, with results and offsets in one transaction."""
