"""What is done: load, ask core, save. Every step is called alike by the command line, a scheduler and the tests."""
