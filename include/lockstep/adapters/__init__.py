"""Holds one file per outside system."""
