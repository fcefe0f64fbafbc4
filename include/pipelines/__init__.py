"""Holds one folder per pipeline: the value, its transform, its expectations, its target."""
