"""A part of one's own with kinds of alerts: letters wait in a table of the database until somebody takes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from sqlalchemy import Connection, text

from rota.clock import SECOND
from rota.database import Database
from rota.extend import AlertContext, AlertUnit, Measured, MeasuredKind, Part

__all__ = ["Letterbox", "empty", "kind", "post"]


class Letterbox(Part):
    """One kind that is about nothing but the table, and what a test wants beside it."""

    name = "letterbox"

    def __init__(self, *more: MeasuredKind) -> None:
        self._more = more

    def alert_kinds(self) -> Sequence[MeasuredKind]:
        return [
            MeasuredKind(
                name="letter_age",
                about="how long the oldest letter has been waiting",
                unit=AlertUnit.SECONDS,
                usual=60,
                words="The oldest letter in the {subject} has waited for {value}; the limit is {limit}.",
                measure=age_of_oldest,
            ),
            *self._more,
        ]


async def age_of_oldest(context: AlertContext) -> list[Measured]:
    oldest = text("SELECT min(posted_at) FROM letters")
    posted_at = await context.database.read(lambda connection: connection.execute(oldest).scalar())
    age_ms = 0 if posted_at is None else await context.store.now() - posted_at
    return [Measured("letterbox", age_ms / SECOND)]


def kind(
    name: str, measure: Callable[[AlertContext], Awaitable[Iterable[Measured]]], **settings: object
) -> MeasuredKind:
    """Another kind, of numbers."""
    said: dict[str, object] = {"about": name, "usual": 1, "words": "{value} of {subject}."}
    return MeasuredKind(name=name, measure=measure, **{**said, **settings})  # pyright: ignore[reportArgumentType] -- tests name real settings


async def post(database: Database, *posted_at: int) -> None:
    """Letters, and the table for them if it is not there."""

    def write(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE IF NOT EXISTS letters (posted_at BIGINT NOT NULL)"))
        for at in posted_at:
            connection.execute(text("INSERT INTO letters VALUES (:at)"), {"at": at})

    await database.write(write)


async def empty(database: Database) -> None:
    await database.write(lambda connection: connection.execute(text("DELETE FROM letters")))
