"""Holds the words of a connection to Postgres, and opens it: addresses, passwords, sessions that stage, poolers."""
