"""From the first layout to this one, in place: what was a hash becomes a record (`codec.py`).

First of all the types are moved to another key, in one step each, and what is left at the old one is no hash any more:
an instance of the older version that is still alive can neither read nor write from then on. Then every task is
rewritten, a page at a time, each if it is still as it was read. Whoever is cut off begins again and passes over what is
done; until it is through, nobody opens the store.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha1
from typing import Final, NamedTuple

from rota.errors import IllegalTransition, SchemaMismatch
from rota.stores.base import Instance
from rota.stores.redis.codec import FIXED
from rota.stores.redis.first_layout import decode_hash
from rota.stores.redis.scripts import Scripts

__all__ = ["SCHEMA", "Layout", "layout_of", "upgrade"]

SCHEMA: Final = 2
"""The version of the layout. A store of another one is not opened."""
UNFINISHED: Final = "upgrading"
PAGE: Final = 200
_WORDS: Final = "moved: this store has a newer layout, upgrade this instance of Rota"


class Layout(NamedTuple):
    """In which layout a store is, and whether somebody began to change that."""

    schema: int
    is_unfinished: bool


async def layout_of(scripts: Scripts) -> Layout | None:
    """None if there is no store at these keys yet."""
    meta = scripts.keys.meta
    found, unfinished = await scripts.server.command("HMGET", meta, "schema", UNFINISHED)
    if found is None:
        return None
    if not found.isdigit():
        raise SchemaMismatch(
            f"The store {scripts.server.name} has a mark that is no number: 'schema' in {meta} is"
            f" {found.decode(errors='replace')[:40]!r}. If something else than Rota uses these keys, choose another"
            f" prefix: ?prefix=... If the mark was changed by hand, set it back: HSET {meta} schema {SCHEMA}."
        )
    return Layout(int(found), unfinished is not None)


async def upgrade(scripts: Scripts, *, force: bool = False) -> int:
    """Bring a store to this layout; how many records were written anew."""
    layout = await layout_of(scripts)
    if layout is None or (layout.schema >= SCHEMA and not layout.is_unfinished):
        return 0
    if not force:
        await _refuse_while_at_work(scripts)
    # From now on nobody begins on it: the older version sees a newer one's mark, this one that it is not through.
    await scripts.server.command("HSET", scripts.keys.meta, "schema", SCHEMA, UNFINISHED, 1)
    for name in sorted(name.decode() for name in await scripts.server.command("SMEMBERS", scripts.keys.types)):
        await scripts.run("move_type", name, {"words": _WORDS})
    written = 0
    async for keys in scripts.server.scan(f"{scripts.keys.pattern}task:*", PAGE):
        for name, part in _by_type(scripts.keys.prefix, keys).items():
            written += await _rewrite(scripts, name, part)
    await scripts.server.command("HDEL", scripts.keys.meta, UNFINISHED)
    return written


async def _refuse_while_at_work(scripts: Scripts) -> None:
    now = await scripts.now()
    working = [each for each in (await scripts.instances()).values() if _is_alive(each, now)]
    if working:
        names = ", ".join(f"{each.beat.host or each.beat.instance}:{each.beat.pid}" for each in working[:5])
        raise IllegalTransition(
            f"{len(working)} instances work on {scripts.server.name} ({names}). Stop them first, and run the upgrade"
            " once they are silent for as long as a lease; --force does it all the same, and what they run now runs"
            " again. Nothing was changed."
        )


def _is_alive(instance: Instance, now: int) -> bool:
    return instance.seen_at + instance.beat.lease_ms >= now


def _by_type(prefix: str, keys: Iterable[str]) -> Mapping[str, list[str]]:
    """The keys of tasks of each type."""
    layout = re.compile(re.escape(prefix) + r"task:\{(\w+)\}:(.*)", re.DOTALL)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys:
        match = layout.fullmatch(key)
        if match is not None:
            found[match[1]].append(match[2])
    return found


async def _rewrite(scripts: Scripts, name: str, keys: Sequence[str]) -> int:
    server, of = scripts.server, scripts.keys.of
    kinds = await server.many([("TYPE", of("task", name, key)) for key in keys])
    old = [key for key, kind in zip(keys, kinds, strict=True) if kind == b"hash"]
    if not old:
        return 0
    hashes: list[dict[bytes, bytes]] = await server.many([("HGETALL", of("task", name, key)) for key in old])
    items = [_item(key, found) for key, found in zip(old, hashes, strict=True) if found]
    return int(await scripts.run("rewrite", name, items))


def _item(key: str, found: dict[bytes, bytes]) -> dict[str, object]:
    digest = sha1(b"\0".join(text for pair in found.items() for text in pair), usedforsecurity=False).hexdigest()
    changing = decode_hash(found)
    has_task = "status" in changing
    fixed = {name: changing.pop(name) for name in FIXED if has_task and name in changing}
    return {"key": key, "digest": digest, "fixed": fixed, "changing": changing}
