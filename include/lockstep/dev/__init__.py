"""Runs the embedded stack: a Postgres and a Kafka broker of its own, from binaries and jars, without containers."""
