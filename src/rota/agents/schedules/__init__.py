"""Schedules of agents: what they do, where they come from, who has agreed to them."""
