"""What goes in and out about scheduled agents over HTTP; the names are those of `to_dict`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rota.access import Role
from rota.api.models import NO_NUL, AnswerModel, Moment, RequestModel, an_example

__all__ = [
    "AgentRunModel",
    "AgentRunningModel",
    "AgentRunningsModel",
    "AgentScheduleModel",
    "AgentSchedulesModel",
    "AgentTokenModel",
    "AgentTokenRequest",
    "ApproveRequest",
    "ChangeAgentRequest",
    "ChannelModel",
    "ChannelRequest",
    "DifferenceModel",
    "GroupModel",
    "GroupRequest",
    "GroupsModel",
    "KillRequest",
    "ScheduleAgentRequest",
    "SwitchModel",
    "WantedModel",
]

Word = Annotated[str, Field(min_length=1, max_length=255, pattern=NO_NUL)]
Folder = Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", examples=["family"])]
Prompt = Annotated[str, Field(min_length=1, max_length=32_000, pattern=NO_NUL)]
Script = Annotated[str, Field(max_length=32_000, pattern=NO_NUL)]
Zone = Annotated[str, Field(min_length=1, max_length=64, examples=["Europe/Berlin"])]


class DifferenceModel(AnswerModel):
    """One thing about a schedule as it is now, and as it would be; null: there is none."""

    model_config = an_example(name="prompt", old="What changed?", new="What changed since yesterday?")

    name: str
    """What it is about."""
    old: str | None
    """As it is now."""
    new: str | None
    """As it would be."""


class WantedModel(AnswerModel):
    """What waits for a person: who asks, and all that would be in force. `digest` stands for just this."""

    model_config = an_example(kind="change", by="family", digest="9f2c...", changes=["prompt"])

    kind: str
    """What is asked for: something new, or a change."""
    by: str
    """Who asks."""
    in_run: str | None
    """The run that asked, if it was one."""
    digest: str
    """Stands for exactly this; send it along to approve nothing else."""
    changes: list[str]
    """The names of what would be different."""
    shown: list[DifferenceModel]
    """Everything that would be in force."""


class AgentScheduleModel(AnswerModel):
    """One scheduled agent."""

    model_config = an_example(
        id="brief-3f9c",
        group_folder="family",
        chat_jid="family@chat",
        prompt="What changed since yesterday?",
        schedule_type="cron",
        schedule_value="0 9 * * 1-5",
        context_mode="isolated",
        status="active",
        words="at 09:00 from Monday to Friday",
        next_run="2026-11-20T08:00:00Z",
        next_run_words="tomorrow at 09:00",
        runs=12,
        failures=0,
        expires_at=None,
        made_by="ann",
        approval="approved",
        digest="9f2c...",
        wanted=None,
    )

    id: str
    """What it is called."""
    group_folder: str
    """The group that it belongs to."""
    chat_jid: str
    """The conversation that its answers go to."""
    prompt: str
    """What the agent is told."""
    schedule_type: str
    """How it is said when it runs."""
    schedule_value: str
    """A cron expression, milliseconds or a duration, or a moment."""
    context_mode: str
    """Whether it knows its group's conversation, or begins afresh."""
    script: str | None
    """Runs before the agent, and may say that there is nothing to do; null: there is none."""
    status: str
    """Where it stands: `active`, `paused`, `completed`, or waiting for approval."""
    is_running: bool
    """Whether a run of it is under way."""
    timezone: str
    words: str
    """When it runs, in words."""
    next_run: Moment | None
    """When it runs next; null: it does not."""
    next_run_words: str | None
    """The same in words."""
    last_run: Moment | None
    """When it ran last; null: it never has."""
    last_result: str | None
    """What its last run said."""
    runs: int
    failures: int
    expires_at: Moment | None
    made_by: str
    """Who made it."""
    made_in_run: str | None
    """The run that made it, if it was one."""
    approval: str
    """Whether a person has agreed to it."""
    digest: str
    """Stands for exactly what is in force."""
    has_proposal: bool
    """Whether something about it waits for approval."""
    asks_for: str | None
    """What is asked for; null if nothing is."""
    asked_by: str | None
    """Who asks for it."""
    wanted: WantedModel | None
    """What waits for a person."""
    held: str | None
    """Why it does not run although it is due; null if nothing holds it."""


class AgentSchedulesModel(AnswerModel):
    """Scheduled agents."""

    items: list[AgentScheduleModel]


class AgentRunModel(AnswerModel):
    """One run of an agent, or one fire that was not run."""

    model_config = an_example(status="success", result="Two bills are due.")

    run_id: str
    status: str
    """How it ended."""
    reason: str | None
    fire_at: Moment | None
    last_fire_at: Moment | None
    fires: int
    started_at: Moment | None
    duration_ms: int | None
    attempt: int
    result: str | None
    error: str | None
    instance: str | None
    token: int | None
    whole_result: str | None
    """Everything that it said, where that is longer than `result`."""


class AgentRunningModel(AnswerModel):
    """A run that is under way, with the last of what it said."""

    model_config = an_example(id="brief-3f9c", folder="family", output="Reading the calendar ...")

    id: str
    """The schedule that it is a run of."""
    folder: str
    """The group that it belongs to."""
    token: int
    started_at: Moment
    seen_at: Moment
    output: str
    """The last of what it said."""
    stop_by: str | None
    """Who has asked it to stop; null: nobody."""


class AgentRunningsModel(AnswerModel):
    """What runs now."""

    items: list[AgentRunningModel]


class ChannelModel(AnswerModel):
    """One way to tell a group's owner something; its secret is never shown."""

    kind: Literal["file", "webhook"]
    """A file in the group's folder, or a webhook."""
    url: str | None
    """Where it is sent; null for a file."""


class GroupModel(AnswerModel):
    """A group of agents."""

    model_config = an_example(folder="family", name="Family", chat_jid="family@chat")

    folder: str
    """What it is called, and the name of its folder."""
    name: str
    """What people call it."""
    chat_jid: str
    """The conversation that it is about."""
    is_main: bool
    """Whether its agents may act on other groups."""
    timezone: str | None
    channels: list[ChannelModel]
    """How its owner is told something."""
    has_network: bool
    """Whether its agents may use the network."""
    created_at: Moment


class SwitchModel(AnswerModel):
    """A kill switch that is thrown; the scope `*` means all groups."""

    model_config = an_example(scope="family", by="ann", reason="It talks too much.")

    scope: str
    """The group that it stops; `*`: all."""
    at: Moment
    """When it was thrown."""
    by: str
    """Who threw it."""
    reason: str
    """Why."""


class GroupsModel(AnswerModel):
    """The groups, and the switches that stop them."""

    items: list[GroupModel]
    switches: list[SwitchModel]
    """The kill switches that are thrown."""


class AgentTokenModel(AnswerModel):
    """A token of a group's agents; the secret is in this answer and nowhere else."""

    model_config = an_example(id="1882da2d", group="family", role="operator", secret="rota_1882da2d_...")  # noqa: S106 - an example

    id: str
    """What it is called where it is shown or revoked."""
    group: str
    """The group that it is narrowed to."""
    role: Role
    """What it allows."""
    secret: str
    """What to send as `Authorization: Bearer ...`."""


class ScheduleAgentRequest(RequestModel):
    """A new scheduled agent. `group` may be left out with a token of a group."""

    model_config = an_example(
        group="family",
        prompt="What changed since yesterday?",
        schedule_type="cron",
        schedule_value="0 9 * * 1-5",
        timezone="Europe/Berlin",
    )

    prompt: Prompt
    """What the agent is to do."""
    schedule_type: Literal["cron", "interval", "once"]
    """How it is said when it runs."""
    schedule_value: Word
    """A cron expression, milliseconds or a duration, or a moment."""
    context_mode: Literal["isolated", "group"] = "isolated"
    """Whether it knows its group's conversation, or begins afresh."""
    script: Script | None = None
    """Runs before the agent, and may say that there is nothing to do."""
    group: Folder | None = None
    """The group that it belongs to."""
    timezone: Zone | None = None
    expires: Word | None = None


class ChangeAgentRequest(RequestModel):
    """What is to be changed; what is left out stays. An empty script takes the gate away, so does `expires` the end."""

    model_config = an_example(prompt="What changed since last week?")

    prompt: Prompt | None = None
    """What the agent is to do."""
    schedule_type: Literal["cron", "interval", "once"] | None = None
    """How it is said when it runs."""
    schedule_value: Word | None = None
    """A cron expression, milliseconds or a duration, or a moment."""
    context_mode: Literal["isolated", "group"] | None = None
    """Whether it knows its group's conversation, or begins afresh."""
    script: Script | None = None
    """Runs before the agent, and may say that there is nothing to do."""
    timezone: Zone | None = None
    expires: Annotated[str, Field(max_length=255, pattern=NO_NUL)] | None = None


class ApproveRequest(RequestModel):
    """With the digest that was shown, only that is approved."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """What was shown; if it is something else by now, nothing is approved."""


class KillRequest(RequestModel):
    """Why."""

    model_config = an_example(reason="It talks too much.")

    reason: Annotated[str, Field(max_length=500, pattern=NO_NUL)] = ""
    """Why, for whoever reads it later."""


class ChannelRequest(RequestModel):
    """One way to tell a group's owner something."""

    kind: Literal["file", "webhook"]
    """A file in the group's folder, or a webhook."""
    url: Annotated[str, Field(max_length=2_048, pattern=NO_NUL)] | None = None
    """Where it is sent, for a webhook."""
    secret: Annotated[str, Field(min_length=1, max_length=255, pattern=NO_NUL)] | None = None
    """What the calls are signed with."""


class GroupRequest(RequestModel):
    """A new group."""

    model_config = an_example(name="Family", timezone="Europe/Berlin")

    name: Annotated[str, Field(max_length=255, pattern=NO_NUL)] = ""
    """What people call it."""
    chat_jid: Annotated[str, Field(max_length=255, pattern=NO_NUL)] = ""
    """The conversation that it is about."""
    is_main: bool = False
    """Whether its agents may act on other groups."""
    timezone: Zone | None = None
    channels: Annotated[list[ChannelRequest], Field(max_length=8)] = Field(default_factory=list[ChannelRequest])
    """How its owner is told something."""
    has_network: bool = False
    """Whether its agents may use the network."""


class AgentTokenRequest(RequestModel):
    """A new token for a group's agents."""

    model_config = an_example(name="chat", look_only=True)

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=NO_NUL)]
    """Who or what it is for."""
    look_only: bool = False
    """It may look, and do nothing."""
    in_runs: bool = False
    """Give it to the group's agents while they run."""
    tools: Annotated[list[Word], Field(max_length=64)] = Field(default_factory=list[str])
    """The only tools that it opens; empty: all."""
