"""Begins to read topics and partitions that are new, and leaves topics."""
