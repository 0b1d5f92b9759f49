"""What the workers' app and the scenarios call the same."""

from __future__ import annotations

STORM_TYPES = tuple(f"storm{number}" for number in range(5))
"""The types of the storm, spread over as many hash slots."""
