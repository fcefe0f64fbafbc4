"""Reads, decodes and transforms records by Spark."""
