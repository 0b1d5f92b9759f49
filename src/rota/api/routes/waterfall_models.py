"""Where the time of a task went, as routes give it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rota.api.models import AnswerModel, Moment
from rota.app.waterfall import Phase

__all__ = ["WaterfallModel"]


class StretchModel(AnswerModel):
    """A piece of time that was spent on one thing."""

    phase: Phase = Field(
        description="`held`: not due yet; `back_off`: after a failure; `waiting`: due; `starting`: claimed; `working`."
    )
    from_at: Moment
    """When it began."""
    to_at: Moment | None = Field(description="When it ended; null while it goes on.")


class IdentityOfRow(AnswerModel):
    """Which task."""

    task_type: str
    key: str


class WaterfallRowModel(AnswerModel):
    """One row: an attempt, a step within one, or a moment."""

    kind: Literal["made", "attempt", "step", "next", "settled", "before", "after"]
    """What it is a row of."""
    label: str
    """What it is called on the page."""
    outcome: str = Field(description="How it ended or where it stands, like `success`, `error`, `running`, `failed`.")
    reason: str | None
    depth: int = Field(description="0 for an attempt, 1 for a step within it.")
    token: int | None
    run_id: str | None = Field(description="The run's record; null while it runs.")
    task: IdentityOfRow | None = Field(description="Another task that the row is about: one before it, or after it.")
    at: Moment | None = Field(description="The moment, where it is about one.")
    stretches: list[StretchModel]
    """What its time was spent on, in order."""


class WaterfallModel(AnswerModel):
    """All attempts at the same work over one axis of time, waiting apart from working."""

    from_at: Moment
    """Where the axis begins."""
    to_at: Moment
    """Where it ends."""
    is_open: bool = Field(description="Whether it goes on.")
    waited_ms: int = Field(description="Due or claimed, and nobody worked on it.")
    worked_ms: int
    """A handler worked on it."""
    rows: list[WaterfallRowModel]
    """From the first to the last."""
