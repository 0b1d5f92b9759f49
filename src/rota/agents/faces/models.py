"""What goes in and out about scheduled agents over HTTP; the names are those of `to_dict`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from rota.access import Role

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

Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
_NO_NUL = r"^[^\x00]*$"
Word = Annotated[str, Field(min_length=1, max_length=255, pattern=_NO_NUL)]
Folder = Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$", examples=["family"])]
Prompt = Annotated[str, Field(min_length=1, max_length=32_000, pattern=_NO_NUL)]
Script = Annotated[str, Field(max_length=32_000, pattern=_NO_NUL)]
Zone = Annotated[str, Field(min_length=1, max_length=64, examples=["Europe/Berlin"])]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DifferenceModel(_Answer):
    """One thing about a schedule as it is now, and as it would be; null: there is none."""

    name: str
    old: str | None
    new: str | None


class WantedModel(_Answer):
    """What waits for a person: who asks, and all that would be in force. `digest` stands for just this."""

    kind: str
    by: str
    in_run: str | None
    digest: str
    changes: list[str]
    shown: list[DifferenceModel]


class AgentScheduleModel(_Answer):
    """One scheduled agent."""

    id: str
    group_folder: str
    chat_jid: str
    prompt: str
    schedule_type: str
    schedule_value: str
    context_mode: str
    script: str | None
    status: str
    is_running: bool
    timezone: str
    words: str
    next_run: Moment | None
    next_run_words: str | None
    last_run: Moment | None
    last_result: str | None
    runs: int
    failures: int
    expires_at: Moment | None
    made_by: str
    made_in_run: str | None
    approval: str
    digest: str
    has_proposal: bool
    asks_for: str | None
    asked_by: str | None
    wanted: WantedModel | None
    held: str | None


class AgentSchedulesModel(_Answer):
    """Scheduled agents."""

    items: list[AgentScheduleModel]


class AgentRunModel(_Answer):
    """One run of an agent, or one fire that was not run."""

    run_id: str
    status: str
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


class AgentRunningModel(_Answer):
    """A run that is under way, with the last of what it said."""

    id: str
    folder: str
    token: int
    started_at: Moment
    seen_at: Moment
    output: str
    stop_by: str | None


class AgentRunningsModel(_Answer):
    """What runs now."""

    items: list[AgentRunningModel]


class ChannelModel(_Answer):
    """One way to tell a group's owner something; its secret is never shown."""

    kind: Literal["file", "webhook"]
    url: str | None


class GroupModel(_Answer):
    """A group of agents."""

    folder: str
    name: str
    chat_jid: str
    is_main: bool
    timezone: str | None
    channels: list[ChannelModel]
    has_network: bool
    created_at: Moment


class SwitchModel(_Answer):
    """A kill switch that is thrown; the scope `*` means all groups."""

    scope: str
    at: Moment
    by: str
    reason: str


class GroupsModel(_Answer):
    """The groups, and the switches that stop them."""

    items: list[GroupModel]
    switches: list[SwitchModel]


class AgentTokenModel(_Answer):
    """A token of a group's agents; the secret is in this answer and nowhere else."""

    id: str
    group: str
    role: Role
    secret: str


class ScheduleAgentRequest(_Request):
    """A new scheduled agent. `group` may be left out with a token of a group."""

    prompt: Prompt
    schedule_type: Literal["cron", "interval", "once"]
    schedule_value: Word
    context_mode: Literal["isolated", "group"] = "isolated"
    script: Script | None = None
    group: Folder | None = None
    timezone: Zone | None = None
    expires: Word | None = None


class ChangeAgentRequest(_Request):
    """What is to be changed; what is left out stays. An empty script takes the gate away, so does `expires` the end."""

    prompt: Prompt | None = None
    schedule_type: Literal["cron", "interval", "once"] | None = None
    schedule_value: Word | None = None
    context_mode: Literal["isolated", "group"] | None = None
    script: Script | None = None
    timezone: Zone | None = None
    expires: Annotated[str, Field(max_length=255, pattern=_NO_NUL)] | None = None


class ApproveRequest(_Request):
    """With the digest that was shown, only that is approved."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None


class KillRequest(_Request):
    """Why."""

    reason: Annotated[str, Field(max_length=500, pattern=_NO_NUL)] = ""


class ChannelRequest(_Request):
    """One way to tell a group's owner something."""

    kind: Literal["file", "webhook"]
    url: Annotated[str, Field(max_length=2_048, pattern=_NO_NUL)] | None = None
    secret: Annotated[str, Field(min_length=1, max_length=255, pattern=_NO_NUL)] | None = None


class GroupRequest(_Request):
    """A new group."""

    name: Annotated[str, Field(max_length=255, pattern=_NO_NUL)] = ""
    chat_jid: Annotated[str, Field(max_length=255, pattern=_NO_NUL)] = ""
    is_main: bool = False
    timezone: Zone | None = None
    channels: Annotated[list[ChannelRequest], Field(max_length=8)] = []
    has_network: bool = False


class AgentTokenRequest(_Request):
    """A new token for a group's agents."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=_NO_NUL)]
    look_only: bool = False
    in_runs: bool = False
    tools: Annotated[list[Word], Field(max_length=64)] = []
