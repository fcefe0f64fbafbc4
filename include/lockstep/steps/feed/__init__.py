"""Announces what commits did to tables with a feed."""
