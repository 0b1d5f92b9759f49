"""Without an event loop: a script, a thread, a web framework that is not async.

python examples/script.py
"""

# ruff: noqa: T201 - an example talks to people

from __future__ import annotations

from rota import Retry, Rota, Run

app = Rota("sqlite:///script.db")


@app.task(max_retries=3)
def resize(payload: str, run: Run) -> str:
    if run.attempt == 1:
        raise Retry(after="0s", reason="the first try always fails here")
    return f"{payload} resized at attempt {run.attempt}"


def main() -> None:
    with app.sync as sync:
        resize.sync.schedule("cat.png", key="cat.png")
        again = resize.sync.schedule("cat.png", key="cat.png")
        print(f"asked again: {again.outcome}")
        print(f"runs: {sync.run_until_idle()}")
        task = sync.wait(app.tasks.get("resize", "cat.png"))
        assert task is not None
        print(f"{task.status}: {task.result}")


if __name__ == "__main__":
    main()
