"""Proves the promises again, and signs what it has proved."""
