"""Holds the formats whose schemas are in a registry, and what formats with named fields share."""
