"""The built-in agent: it says back what it was asked, so that schedules can be tried with nothing installed.

It stands alone on the standard library and speaks the runner's protocol: one JSON object in, JSON lines out. Its source
may itself be an argument of a command, so nothing in it looks like a placeholder.
"""

from __future__ import annotations

import json
import sys
import uuid

__all__ = ["main"]


def main() -> None:
    """Read the request, show a little progress, answer."""
    request = json.loads(sys.stdin.read())
    session = request.get("sessionId") or f"echo-{uuid.uuid4().hex[:12]}"
    _say({"progress": "Reading the prompt."})
    result = request["prompt"]
    if request.get("data") is not None:
        result = "\n".join((result, json.dumps(request["data"], ensure_ascii=False)))
    _say({"status": "success", "result": result, "error": None, "newSessionId": session})


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
