"""Runs Lockstep beside its peers: the same topic, the same table, the same machine, in turns."""
