"""Shows how a pipeline and its surroundings are. Changes nothing."""
