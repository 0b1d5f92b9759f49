"""Runs of agents: what one needs, how it goes, what is kept of it."""
