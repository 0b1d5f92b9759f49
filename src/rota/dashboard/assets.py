"""The script and the stylesheet: read once, served under a name that changes with their content."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Final

from fastapi import Request
from fastapi.responses import Response

__all__ = ["Assets"]

_KINDS: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class Assets:
    """The files of `static/`, by name. A browser keeps one for ever: another content has another URL."""

    def __init__(self) -> None:
        folder = resources.files("rota.dashboard") / "static"
        self._files = {
            file.name: file.read_bytes()
            for file in folder.iterdir()
            if file.is_file() and file.name[file.name.rfind(".") :] in _KINDS
        }
        self._versions = {name: hashlib.sha256(content).hexdigest()[:16] for name, content in self._files.items()}

    def path(self, name: str) -> str:
        """Where a file is, below the base path."""
        return f"/static/{self._versions[name]}/{name}"

    def answer(self, request: Request, version: str, name: str) -> Response:
        """The file; an old version's name gets the current content, but nobody is told to keep it."""
        content = self._files.get(name)
        if content is None:
            return Response("There is no such file.", 404, media_type="text/plain")
        etag = f'"{self._versions[name]}"'
        keep = _FOR_EVER if version == self._versions[name] else "no-cache"
        headers = {"ETag": etag, "Cache-Control": keep}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=_KINDS[name[name.rfind(".") :]], headers=headers)
