"""Reads topics, their settings and a consumer group's offsets."""
