"""Runs the embedded stack: its own Postgres and Kafka broker, from binaries and jars, without containers."""
