"""Renders the pages, one module each."""
