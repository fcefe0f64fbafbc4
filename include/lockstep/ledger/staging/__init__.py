"""Creates, counts and digests what an attempt has staged."""
