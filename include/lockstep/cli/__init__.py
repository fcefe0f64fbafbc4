"""The command line: one file per family of commands; errors are caught at its one door."""
