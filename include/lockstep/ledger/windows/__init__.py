"""Reads and writes event time in the ledger: watermarks, judgements, windows, and late records."""
