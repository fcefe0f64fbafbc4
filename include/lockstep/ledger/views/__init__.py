"""Reads progress and history for commands and pages."""
