"""Leads staged rows into files of the lake."""
