"""Holds the command line: one file per family of commands. One function, `main`, catches the errors of all."""
