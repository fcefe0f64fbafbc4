"""Records requests for fills and replays, plans their batches, and previews them."""
