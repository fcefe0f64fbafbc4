"""Writes requests and the decisions of a person."""
