"""A part of your own: a type, a page, a command, a metric and a duty, and no file of Rota changes.

ROTA_APP=examples.greeter:app rota up            # the page is "Greetings" in the menu
ROTA_APP=examples.greeter:app rota greet ada     # the command
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from typer import Typer

from rota import Rota
from rota.extend import Cli, Duty, DutyContext, MenuEntry, Page, Pages, Part, Role, TriggerMode, View, command


class Greeter(Part):
    name = "greeter"
    waiting = 0

    def install(self) -> None:
        self.host.declare("greet", say_hello, TriggerMode.ONCE, {"timeout": "1m"}, decorator="Greeter")

    def duties(self, context: DutyContext) -> Sequence[Duty[int]]:
        return [CountWaiting(self, context)]

    async def metrics(self) -> Iterable[Metric]:
        return [GaugeMetricFamily("greetings_waiting", "Greetings that wait to be said.", self.waiting)]

    def pages(self) -> Pages:
        menu = (MenuEntry("greetings", "/greetings", "Greetings", "y", Role.VIEWER, "Work"),)
        return Pages(menu, shown=(("/greetings", show, Role.VIEWER),), templates="examples.greeter")

    def commands(self, root: Typer) -> None:
        command(root, "greet")(greet)


class CountWaiting(Duty[int]):
    name = "greeter"

    def __init__(self, greeter: Greeter, context: DutyContext) -> None:
        super().__init__(context.pulse, context.chance)
        self._greeter, self._store = greeter, context.store

    async def run_once(self, now: int | None = None) -> int:
        counts = (await self._store.counts()).get("greet")
        self._greeter.waiting = counts.pending if counts else 0
        return self._greeter.waiting

    def pause_after(self, report: int) -> float:
        return 2.0


async def say_hello(payload: object) -> str:
    return f"Hello, {payload}!"


async def show(view: View) -> Page:
    return Page("greetings.html", "Greetings", {"runs": (await view.app.runs("greet")).items}, concerns="greet")


async def greet(cli: Cli, name: str) -> None:
    """Greet somebody, soon."""
    async with cli.session() as session:
        receipt = await session.operator.schedule("greet", name)
    cli.output.one(receipt.to_dict(), f"{name} will be greeted.")


app = Rota(parts=[Greeter()])
