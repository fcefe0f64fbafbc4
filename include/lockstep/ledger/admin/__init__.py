"""Reads the database's settings and objects, and acts for its owner."""
