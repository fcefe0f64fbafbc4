"""Decodes JSON: by columns with Arrow, by Spark, or record by record."""
