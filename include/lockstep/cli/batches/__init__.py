"""Holds the commands that run batches, and the decisions about them."""
