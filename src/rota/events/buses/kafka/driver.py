"""The driver, in words of ours: its log, what its errors say and mean, and what it is asked with."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from rota.events.buses.base import BusAway, Place
from rota.logs import get_logger

if TYPE_CHECKING:  # the driver is optional, and takes a while to import
    from confluent_kafka import KafkaError, TopicPartition

__all__ = [
    "ASK_SECONDS",
    "LOOK_SECONDS",
    "SILENT",
    "Asking",
    "DriverLog",
    "Settings",
    "away",
    "code_of",
    "is_fatal",
    "is_silence",
    "partitions_of",
    "reason_of",
]

log = get_logger("rota.events")

Settings = dict[str, Any]
"""What a client of the driver is made with."""

ASK_SECONDS: Final = 3.0
"""How long Kafka may take to answer a question."""
LOOK_SECONDS: Final = 1.0
"""How often brokers that went away are asked whether they are back, and commits that failed are tried again."""

SILENT: Final = "its brokers do not answer"


class DriverLog:
    """Takes what librdkafka would print to the terminal. Of connections that fail whoever needs them tells."""

    def log(self, level: int, form: str, *values: object) -> None:
        text = form % values
        is_grave = level >= logging.ERROR and not text.startswith(("FAIL ", "ERROR ", "SSL "))
        if is_grave or text.startswith("CONFWARN "):
            log.warning("kafka.driver", text=text)
        else:
            log.debug("kafka.driver", text=text)


def reason_of(error: BaseException) -> str:
    """What an error of the driver says, without the dot at its end."""
    inner = error.args[0] if error.args else error
    text = cast("KafkaError", inner).str() if hasattr(inner, "str") else str(inner)
    return text.strip().removesuffix(".")


def code_of(error: BaseException) -> int | None:
    inner = error.args[0] if error.args else None
    return cast("KafkaError", inner).code() if hasattr(inner, "code") else None


def is_fatal(error: KafkaError) -> bool:
    """Whether the client that had it is of no use any more."""
    from confluent_kafka import KafkaError as Code

    return error.fatal() or error.code() == Code._FATAL  # noqa: SLF001 - the driver's own errors are called so


def is_silence(code: int | None) -> bool:
    """Whether nobody has answered."""
    from confluent_kafka import KafkaError as Code

    return code in (
        Code._TIMED_OUT,  # noqa: SLF001 - the driver's own errors are called so
        Code._TRANSPORT,  # noqa: SLF001
        Code._ALL_BROKERS_DOWN,  # noqa: SLF001
        Code._RESOLVE,  # noqa: SLF001
        Code._AUTHENTICATION,  # noqa: SLF001
        Code._SSL,  # noqa: SLF001
    )


class Asking:
    """A client for questions. The driver says of its methods only half of what they give."""

    def __init__(self, settings: Settings) -> None:
        from confluent_kafka.admin import AdminClient

        self._heard: str | None = None
        told: Settings = {**settings, "error_cb": self._hear}
        self.client: Any = AdminClient(told, logger=DriverLog())

    def why(self, error: BaseException) -> str:
        """Why a question was not answered. To whoever asked the driver says only that nobody answers; that a password
        or a certificate is wrong, it says aside."""
        self.client.poll(0)
        return self._heard or reason_of(error)

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Code

        if error.code() in (Code._AUTHENTICATION, Code._SSL):  # noqa: SLF001 - the driver's own errors are called so
            self._heard = error.str().removesuffix(".")


def away(name: str, reason: str) -> BusAway:
    return BusAway(f"The bus {name} is away: {reason}. It is tried again; {_advice(reason)}.")


def _advice(reason: str) -> str:
    said = reason.lower()
    if "authentication" in said:
        return "check the user and the password in its URL"
    if "certificate" in said or "ssl handshake" in said:
        return "check security.protocol, ssl.ca.location and the name of the host in its URL"
    return "see that its brokers run and can be reached"


def partitions_of(places: Iterable[Place]) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(place.topic, place.partition) for place in places]
