"""Holds the commands that only read."""
