"""Decodes JSON: by columns with Arrow, or record by record."""
