"""Holds the values and pure functions that decide what should happen. Uses the standard library only."""
