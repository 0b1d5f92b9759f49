"""What somebody has chosen for their own eyes: zone, colours, payloads hidden. Kept in cookies, never in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rota.errors import InvalidTrigger
from rota.triggers.zone import zone

__all__ = ["COOKIES", "Preferences"]

COOKIES: Final[Mapping[str, tuple[str, ...]]] = {
    "rota_theme": ("auto", "light", "dark"),
    "rota_zone": ("browser", "utc", "schedule"),
    "rota_payloads": ("show", "hide"),
}
"""The cookies and what they may say; the first is what counts without one."""
BROWSER_ZONE: Final = "rota_browser_zone"
"""The zone of the browser, as the script has found it."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """One person's choices."""

    theme: str
    zone_choice: str
    browser_zone: str
    hides_payloads: bool

    @classmethod
    def of(cls, cookies: Mapping[str, str], *, hides_payloads: bool = False) -> Preferences:
        """What the cookies say; nonsense counts as nothing."""

        def chosen(name: str) -> str:
            value = cookies.get(name, "")
            return value if value in COOKIES[name] else COOKIES[name][0]

        payloads = cookies.get("rota_payloads", "hide" if hides_payloads else "show")
        return cls(
            theme=chosen("rota_theme"),
            zone_choice=chosen("rota_zone"),
            browser_zone=_known(cookies.get(BROWSER_ZONE, "")),
            hides_payloads=payloads == "hide",
        )

    def zone(self, schedule_zone: str | None = None) -> str:
        """The zone to show times in; a page about one schedule names that schedule's."""
        if self.zone_choice == "schedule" and schedule_zone is not None:
            return schedule_zone
        return self.browser_zone if self.zone_choice == "browser" else "UTC"


def _known(name: str) -> str:
    """The name, if it is an IANA zone; a cookie may say anything."""
    try:
        zone(name)
    except InvalidTrigger:
        return "UTC"
    return name
