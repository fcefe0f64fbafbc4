"""Decides for many pipelines at once."""
