"""Makes the feeds of tables, tells them what commits did, and reads them."""
