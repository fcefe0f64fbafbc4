"""Formats: bytes to columns, and the reason where that fails."""
