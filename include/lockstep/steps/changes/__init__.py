"""Records the decisions of a person, each in one transaction."""
