"""Delivers results to a store apart from the ledger: a second Postgres, or files."""
