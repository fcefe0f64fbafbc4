"""Keeps the lake's pointers, and what attempts have written for them."""
