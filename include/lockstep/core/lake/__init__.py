"""Defines tables of the lake, whose pointers lie in the ledger's database."""
