"""The embedded stack: a Postgres and a Kafka broker of one's own, started from binaries and jars, no containers."""
