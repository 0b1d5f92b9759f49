"""Schedules made at run time: a person asks for something every weekday at nine.

    python examples/schedules.py

One type does whatever its payload says; each schedule has its own trigger. The schedule is explained, run once by hand,
and still waits for its next fire afterwards.
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

import asyncio

from rota import Rota

app = Rota("sqlite:///schedules.db", timezone="Europe/Berlin")


@app.task(timeout="10m")
async def agent(payload: dict[str, str]) -> str:
    print(f"agent: {payload['prompt']}")
    return "nothing new"


async def main() -> None:
    async with app:
        schedule = await app.schedules.upsert(
            "morning-brief", type="agent", cron="0 9 * * 1-5", payload={"prompt": "What changed since yesterday?"}
        )
        print(f"{schedule.id}: {schedule.words}")
        for fire in app.schedules.explain(cron="0 9 * * 1-5", n=3).fires:
            print(f"  next: {fire}")

        await app.schedules.run_now("morning-brief", "agent")
        await app.run_until_idle()
        (run,) = (await app.runs("agent", limit=1)).items
        print(f"run {run.run_id}: {run.status}, {run.result}")

        after = await app.schedules.get("morning-brief", "agent")
        assert after is not None
        print(f"still next: {after.next_fire == schedule.next_fire}")


if __name__ == "__main__":
    asyncio.run(main())
