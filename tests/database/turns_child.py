"""A process that writes to a SQLite file without a pause, and says so when it has written for so many times."""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy import Connection, text

from rota.database import Database

# Some milliseconds with the file: nearly all the time somebody has it.
_DWELL = text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) SELECT max(i) FROM n")
_ADD = text("UPDATE turns SET taken = taken + 1 WHERE who = :who RETURNING (SELECT sum(taken) FROM turns)")


async def write_until(url: str, who: str, most: int) -> None:
    database = Database(url)
    await database.open()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()

    def write(connection: Connection) -> int:
        connection.execute(_DWELL)
        return int(connection.execute(_ADD, {"who": who}).scalar_one())

    while await database.write(write) < most:
        pass
    await database.close()


if __name__ == "__main__":
    asyncio.run(write_until(sys.argv[1], sys.argv[2], int(sys.argv[3])))
