"""Holds the words of connections, and opens those to Postgres: addresses, options, passwords, sessions, poolers."""
