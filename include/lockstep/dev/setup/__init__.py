"""Builds what pip cannot install: jars, archives of classes, wheels' programs, the bill of materials."""
