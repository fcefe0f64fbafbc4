"""Creates topics and sends sample records."""
