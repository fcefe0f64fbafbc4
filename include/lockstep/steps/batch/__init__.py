"""Takes a batch from its plan to its commit: plan, stage, validate, commit, announce."""
