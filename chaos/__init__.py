"""Worker processes under load, killed and frozen, with an oracle that nobody can talk out of what it saw."""
