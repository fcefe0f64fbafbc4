"""Compares a target's table with its definition, and brings it up to the definition."""
