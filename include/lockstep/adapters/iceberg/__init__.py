"""Speaks to Iceberg tables by pyiceberg, which is imported in this room alone."""
