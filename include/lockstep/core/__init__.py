"""What should happen: values and pure functions, standard library only."""
