"""The tutorial, followed as it is printed: in order, in an empty folder, with its services and its browser.

Its Redis is the one of these tests instead of one on the usual port; services take any port that is free.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.dashboard.conftest import FLAGS, PATIENCE_MS, chromium_path

from rota.testing.waiting import PATIENCE, until_blocking

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
REDIS = "redis://127.0.0.1:6379/0"
SERVING = ("rota up", "rota worker")
BIN = Path(sys.executable).parent


class Block(NamedTuple):
    language: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)]


class Terminals:
    """Where the commands of the page are typed: what serves has a terminal of its own, until it is stopped."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self._redis = redis_url
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.environment = {**environment, "PATH": f"{BIN}:{os.environ['PATH']}", "ROTA_SERVER__PORT": "0"}
        self.serving: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0

    def type(self, line: str) -> str:
        """One line of the page."""
        line = line.replace(REDIS, self._redis)
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = value
            return ""
        if line.startswith(SERVING):
            self.start(line)
            return ""
        if line.startswith("rota migrate"):
            self.stop_all()
        return self.ask(line)

    def ask(self, line: str) -> str:
        done = subprocess.run(
            shlex.split(line), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stdout} {done.stderr}"
        return done.stdout

    def start(self, line: str) -> None:
        """What serves; the same line again means that it was stopped first."""
        self._stop(line)
        self._starts += 1
        log = self.folder / f"terminal-{self._starts}.log"
        with log.open("wb") as said:
            self.serving[line] = subprocess.Popen(
                shlex.split(line), cwd=self.folder, env=self.environment, stdout=said, stderr=subprocess.STDOUT
            )
        before = len(self.instances()) if line.startswith("rota worker") else 0
        if line.startswith("rota up"):
            until_blocking(lambda: "/login?token=" in log.read_text(), f"{line} is up: {log.read_text()}")
            self.link = next(iter(re.findall(r"http://\S+/login\?token=\S+", log.read_text())))
        else:
            until_blocking(lambda: len(self.instances()) > before or self.has_ended(line), f"{line} is at work")
            assert not self.has_ended(line), log.read_text()

    def instances(self) -> list[str]:
        return re.findall(r'"instance": ?"', self.ask("rota instance ls --json"))

    def has_ended(self, line: str) -> bool:
        return self.serving[line].poll() is not None

    def stop_all(self) -> None:
        for line in list(self.serving):
            self._stop(line)

    def _stop(self, line: str) -> None:
        process = self.serving.pop(line, None)
        if process is not None:
            process.terminate()
            process.wait(PATIENCE)


@contextmanager
def terminals(folder: Path, redis_url: str) -> Generator[Terminals]:
    opened = Terminals(folder, redis_url)
    try:
        yield opened
    finally:
        opened.stop_all()


@pytest.mark.timeout(900)
def test_the_tutorial(tmp_path: Path, redis_url: str) -> None:
    with terminals(tmp_path, redis_url) as typed:
        for block in BLOCKS:
            if block.language == "python":
                (tmp_path / block.text.partition("\n")[0].removeprefix("# ")).write_text(block.text)
            elif block.language == "diff":
                mend(tmp_path / "shop.py", block.text)
            else:
                follow(typed, block.text.splitlines())
        assert "renewal" in typed.ask("rota schedule ls --json")


def follow(typed: Terminals, lines: list[str]) -> None:
    """The lines of one block, and what the text around them says."""
    if "rota task show send_invoice order-7" in lines:
        redrive(typed.link)
        until_blocking(lambda: "completed" in typed.ask(lines[0]), "the order is done")
    if "rota run ls --type refresh_profile" in lines:
        until_blocking(lambda: '"success"' in typed.ask(f"{lines[0]} --json"), "the profile is refreshed")
        assert typed.ask(f"{lines[0]} --json").count('"success"') == 1
    if "rota failures ls" in lines:
        until_blocking(lambda: "order-7" in typed.ask("rota dlq ls --json"), "the order is a dead letter")
        assert '"ValueError"' in typed.ask("rota failures ls --json")
    for line in lines:
        typed.type(line)
    if "rota instance ls" in lines:
        assert len(typed.instances()) == 2


def mend(file: Path, diff: str) -> None:
    """Take out the lines with a minus, put in those with a plus."""
    old = "".join(f"{line[1:]}\n" for line in diff.splitlines() if line.startswith("-"))
    new = "".join(f"{line[1:]}\n" for line in diff.splitlines() if line.startswith("+"))
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))


def redrive(link: str) -> None:
    """What the page has somebody do in their browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS, timeout=PATIENCE_MS)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(link)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Failures").click()
        page.get_by_role("link", name="ValueError").click()
        expect(page.get_by_label("Traceback")).to_contain_text("could not convert string to float")
        page.get_by_role("button", name="Redrive 1").click()
        page.get_by_role("button", name=re.compile("^Yes")).click()
        page.locator(".flash").wait_for()
        browser.close()
