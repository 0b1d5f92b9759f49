"""What tests of an application, of a store and of Rota itself are written with.

    FakeClock           time that moves only when told: `clock.advance("3h")`
    FaultyStore         a real store that can be down, slow, or lose its replies
    assert_scheduled    a task is there and due as expected, or the message shows what is there instead
    assert_not_scheduled    none is
    run_task            one task of a type is run, now, and its run given
    run_until_idle      work off everything that is due
    until               wait for a condition, never for a time (`until_blocking` without an event loop)
    conformance         the suite that every store passes

The pytest plugin (`rota.testing.plugin`) gives the fixtures `rota_use`, `rota_clock`, `rota_store` and `rota_app`.
docs/testing.md has recipes.
"""

from rota.testing.assertions import assert_not_scheduled, assert_scheduled, run_task, run_until_idle
from rota.testing.clock import FakeClock
from rota.testing.faulty import FaultyStore
from rota.testing.waiting import until, until_blocking

__all__ = [
    "FakeClock",
    "FaultyStore",
    "assert_not_scheduled",
    "assert_scheduled",
    "run_task",
    "run_until_idle",
    "until",
    "until_blocking",
]
