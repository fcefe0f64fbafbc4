"""Lockstep: Kafka lands in Postgres in gap-checked batches, results and offsets in one transaction."""
