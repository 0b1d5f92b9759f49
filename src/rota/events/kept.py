"""A message as the inbox keeps it while it is to be tried again, or dead: whole, whatever it was."""

from __future__ import annotations

from typing import Final

import msgspec

from rota.codec import warmed

__all__ = ["Kept", "keep", "kept_message"]


class Kept(msgspec.Struct, frozen=True):
    """What a bus has brought, beside its topic and key."""

    partition: int
    offset: str
    headers: dict[str, str]
    value: str

    def original(self) -> object:
        """What it carried: as JSON if it was some, else as text."""
        try:
            return msgspec.json.decode(self.value)
        except (msgspec.MsgspecError, RecursionError):
            return self.value


_DECODER: Final = warmed(msgspec.json.Decoder(Kept), '{"partition":0,"offset":"0","headers":{},"value":""}')


def keep(kept: Kept) -> str:
    return msgspec.json.encode(kept).decode()


def kept_message(text: str) -> Kept:
    return _DECODER.decode(text)
