"""From standard input and output to the socket of a run: what an agent starts as its MCP server.

Its source is handed over in the configuration and runs inside the sandbox, where there is no Rota: nothing but the
standard library, and nothing that a Python of some years ago would not know.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

__all__ = ["main"]

PIECE = 65_536


def main(path: str) -> int:
    """Carry bytes both ways until the server is done."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(path)
        except OSError as error:
            sys.stderr.write(f"The MCP server of this run cannot be reached at {path}: {error}. Is the run over?\n")
            return 1
        threading.Thread(target=_carry_in, args=(line,), daemon=True).start()
        _carry_out(line)
    return 0


def _carry_in(line: socket.socket) -> None:
    try:
        while piece := os.read(0, PIECE):
            line.sendall(piece)
        line.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the server has gone; the other direction ends by it


def _carry_out(line: socket.socket) -> None:
    while piece := line.recv(PIECE):
        while piece:
            piece = piece[os.write(1, piece) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
