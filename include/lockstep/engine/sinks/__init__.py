"""Writes decoded rows into staging, or commits them range by range, and counts every record."""
