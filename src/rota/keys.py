"""Identity: task type names, ids, and the user key that is made from ids.

A user key is the enabled ones of user_id, device_id and agent_id, joined by ":". In each part "%" and ":" are
percent-encoded, so distinct ids never give the same key and plain ids stay readable: `u1:phone:default`.
The key only identifies. The ids themselves live in the task's record; nothing is ever run from a parsed key.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

import msgspec

from rota.errors import InvalidConfig, InvalidInput, LimitExceeded

__all__ = [
    "GLOBAL_KEY",
    "MAX_ID_LENGTH",
    "MAX_KEY_BYTES",
    "MAX_TYPE_LENGTH",
    "IUserKeyBuilder",
    "UserKeyBuilder",
    "UserKeyConfig",
    "begins_with_user",
    "check_id",
    "check_task_type",
    "encoded",
    "shown_key",
]

GLOBAL_KEY: Final = "%global"
"""The key of a type that runs for nobody in particular (periodic, cron).

In a user key every "%" is followed by 25 or 3A, so no user can own this one, not even a user named "global".
"""

MAX_TYPE_LENGTH: Final = 64
MAX_ID_LENGTH: Final = 255
# An entry of a PostgreSQL B-tree holds about 2,700 bytes, and the index is over (task_type, key). Three ids of 255
# characters fit unless nearly all of them are outside the BMP.
MAX_KEY_BYTES: Final = 2_400

_TYPE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_KEY_PART = re.compile(r"(?:[^%:]|%25|%3A)+", re.DOTALL)


def shown_key(key: str) -> str:
    """The key as people see it: the global key is "global", in the monitoring as well."""
    return "global" if key == GLOBAL_KEY else key


def check_task_type(name: object) -> str:
    """The name itself, if it can name a task type."""
    if not isinstance(name, str):
        raise InvalidInput(f"The task type is {name!r}, which is no text. Use a name like 'memory_compression'.")
    if len(name) > MAX_TYPE_LENGTH:
        raise LimitExceeded(
            f"The task type '{name[:24]}...' has {len(name)} characters; the limit is {MAX_TYPE_LENGTH}."
            " Use a shorter name."
        )
    if not _TYPE_NAME.fullmatch(name):
        raise InvalidInput(
            f"The task type {name!r} is no valid name. Use small letters, digits and '_', with a letter first,"
            " like 'memory_compression'."
        )
    return name


def check_id(value: object, what: str = "id") -> str:
    """The id itself, if every store can keep it and give it back unchanged. `what` names it in the message."""
    if not isinstance(value, str):
        raise InvalidInput(f"The {what} is {value!r}, which is no text. Give it as a string.")
    if len(value) > MAX_ID_LENGTH:
        raise LimitExceeded(
            f"The {what} '{value[:24]}...' has {len(value)} characters; the limit is {MAX_ID_LENGTH}. Use a shorter id."
        )
    if "\0" in value:
        raise InvalidInput(f"The {what} {value!r} contains a NUL character. Remove it.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"The {what} {value!r} is no valid Unicode text (lone surrogate). Decode it as UTF-8."
        ) from None
    return value


@dataclass(frozen=True)
class UserKeyConfig:
    """Which ids make up a user key, and what stands in for one that is missing."""

    use_user_id: bool = True
    use_device_id: bool = True
    use_agent_id: bool = True
    default_device_id: str = "default"
    default_agent_id: str = "default"

    def __post_init__(self) -> None:
        for name in ("use_user_id", "use_device_id", "use_agent_id"):
            _check_flag(name, getattr(self, name))
        if not self.use_user_id:
            raise InvalidConfig(
                "user_key_config.use_user_id is false: a key without the user would run one user's task for all."
                " Set it to true, or make the type periodic."
            )
        for name in ("default_device_id", "default_agent_id"):
            _check_default(name, getattr(self, name))

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> UserKeyConfig:
        """From a mapping as YAML or a Redis hash gives it: "true" is as good as true. Unknown names are refused."""
        known = {field.name: str if field.name.startswith("default_") else bool for field in fields(cls)}
        unknown = [name for name in data if name not in known]
        if unknown:
            raise InvalidConfig(f"user_key_config has no setting {unknown[0]!r}. Use one of: {', '.join(known)}.")
        given = {name: _converted(name, value, known[name]) for name, value in data.items()}
        return replace(cls(), **given)


def _check_flag(name: str, value: object) -> None:
    # "false" from an environment variable is true to Python; better no scheduler than keys of the wrong shape.
    if not isinstance(value, bool):
        raise InvalidConfig(f"user_key_config.{name} is {value!r}. Use true or false.")


def _check_default(name: str, value: object) -> None:
    try:
        empty = not check_id(value, name)
    except InvalidInput as error:
        raise InvalidConfig(f"user_key_config.{name}: {error}") from None
    if empty:
        raise InvalidConfig(f"user_key_config.{name} is empty. Give it a name, like 'default'.")


def _converted(name: str, value: object, kind: type[bool] | type[str]) -> bool | str:
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, UnicodeError):
        expected = "true or false" if kind is bool else "text in quotes"
        raise InvalidConfig(f"user_key_config.{name} is {value!r}. Use {expected}.") from None


class IUserKeyBuilder(ABC):
    """What turns ids into a key."""

    @abstractmethod
    def build_key(self, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> str:
        """The key of these ids."""

    @abstractmethod
    def parse_key(self, user_key: str) -> dict[str, str | None]:
        """user_id, device_id and agent_id of a key; None for one that is not part of it."""

    @abstractmethod
    def get_key_dimensions(self) -> list[str]:
        """The names of the ids in a key, in order."""


class UserKeyBuilder(IUserKeyBuilder):
    """Builds keys of one to three parts, as its configuration says."""

    def __init__(self, config: UserKeyConfig | Mapping[str, object] | None = None) -> None:
        if config is None:
            config = UserKeyConfig()
        self._config = config if isinstance(config, UserKeyConfig) else UserKeyConfig.from_dict(config)
        self.default_device_id = self._config.default_device_id
        self.default_agent_id = self._config.default_agent_id
        self._dimensions = ["user_id"]
        if self._config.use_device_id:
            self._dimensions.append("device_id")
        if self._config.use_agent_id:
            self._dimensions.append("agent_id")

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, object]) -> UserKeyBuilder:
        """A builder for the mapping under `user_key_config`."""
        return cls(UserKeyConfig.from_dict(config_dict))

    @property
    def use_device_id(self) -> bool:
        return self._config.use_device_id

    @property
    def use_agent_id(self) -> bool:
        return self._config.use_agent_id

    def build_key(self, user_id: str, device_id: str | None = None, agent_id: str | None = None) -> str:
        """The key of these ids. None or "" is taken as the default; an empty user_id is refused."""
        if not check_id(user_id, "user_id"):
            raise InvalidInput("The user_id is empty. Activity needs a user; for work without one use a periodic type.")
        parts = [user_id]
        # An id that is not part of the key is still kept in the record, so it is checked all the same.
        device = check_id(device_id or self.default_device_id, "device_id")
        agent = check_id(agent_id or self.default_agent_id, "agent_id")
        if self._config.use_device_id:
            parts.append(device)
        if self._config.use_agent_id:
            parts.append(agent)
        key = ":".join(map(encoded, parts))
        # Almost every key is short; counting bytes is for the others.
        if len(key) * 4 > MAX_KEY_BYTES and len(key.encode()) > MAX_KEY_BYTES:
            raise LimitExceeded(
                f"The user key '{key[:24]}...' has {len(key.encode())} bytes; the limit is {MAX_KEY_BYTES}."
                " Use shorter ids."
            )
        return key

    def parse_key(self, user_key: str) -> dict[str, str | None]:
        """The ids that `build_key` was given, for display. A key of another shape is refused, never guessed at."""
        parts = user_key.split(":")
        if len(parts) != len(self._dimensions) or not all(_KEY_PART.fullmatch(part) for part in parts):
            raise InvalidInput(
                f"The key {user_key!r} was not built from {', '.join(self._dimensions)}. Read the ids from the task's"
                " record; keys change their shape when user_key_config does."
            )
        ids: dict[str, str | None] = {"user_id": None, "device_id": None, "agent_id": None}
        ids.update(zip(self._dimensions, map(_decode, parts), strict=True))
        return ids

    def get_key_dimensions(self) -> list[str]:
        """The names of the ids in a key, in order."""
        return list(self._dimensions)

    def get_key_count(self) -> int:
        """How many parts a key has: 1 to 3."""
        return len(self._dimensions)


def encoded(part: str) -> str:
    """An id as it stands in a key. Every user key of a user begins with the encoded user_id."""
    return part.replace("%", "%25").replace(":", "%3A")


def begins_with_user(key: str, user_id: str) -> bool:
    """Whether a key begins with its user, as user keys do: then the lexical range of the user finds it."""
    prefix = encoded(user_id)
    return key == prefix or key.startswith(f"{prefix}:")


def _decode(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")
