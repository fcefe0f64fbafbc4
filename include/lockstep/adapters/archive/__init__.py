"""Keeps archived files in a folder or in S3."""
