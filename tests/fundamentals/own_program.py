"""A program as its user has it: an app of the module, on a store that nobody serves, with all kinds of declarations."""

from __future__ import annotations

from collections.abc import Sequence

from rota import Rota
from rota.batches import GenerationRequest
from rota.events import Event
from rota.runtime.run import Run

NOBODY_THERE = "postgresql://nobody@127.0.0.1:1/nothing"
MODEL = {"generator": "openai", "llm_model": "any", "llm_url": "http://127.0.0.1:1/v1"}

app = Rota({"store": NOBODY_THERE, "bus": "redis://127.0.0.1:1/0", "batches": MODEL})

compressed: list[str] = []
charged: list[object] = []
billed: list[object] = []


@app.on_activity(after="30m", cooldown="defer", max_retries=3)
async def memory_compression(user_id: str) -> None:
    compressed.append(user_id)


@app.task(max_retries=2)
async def charge_card(payload: dict[str, object], run: Run) -> str:
    if run.attempt < 2:
        raise ConnectionError("payment gateway")
    charged.append(payload["amount"])
    return f"charged {payload['amount']}"


@app.cron("0 9 * * *", timezone="Asia/Shanghai")
def morning_report() -> None: ...


@app.consumer("Shop.Order.Created", name="billing")
async def bill(event: Event) -> None:
    billed.append(event.payload)


@app.generator("recipe", size=5)
async def recipes(request: GenerationRequest) -> Sequence[str]:
    return [f"{request.style} soup {number}" for number in range(request.count)]
