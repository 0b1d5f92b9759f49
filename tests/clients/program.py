"""What somebody writes with the client that was made: a task is made, listed, and another one refused."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import importlib
import json
import pkgutil
import sys

import rota_client
from rota_client import AuthenticatedClient
from rota_client.api.tasks import list_tasks, schedule_task
from rota_client.models import Problem, ReceiptModel, SortedPageModelTaskModel, TaskRequest


def main(url: str, token: str) -> None:
    with AuthenticatedClient(url, token=token) as client:
        made = schedule_task.sync(client=client, body=TaskRequest(task_type="job", key="from-a-client", delay="1h"))
        listed = list_tasks.sync(client=client, task_type="job")
        refused = schedule_task.sync(client=client, body=TaskRequest(task_type="nothing"))
    assert isinstance(made, ReceiptModel)
    assert isinstance(listed, SortedPageModelTaskModel)
    assert isinstance(refused, Problem)
    said = {
        "made": made.outcome.value,
        "listed": [task.key for task in listed.items],
        "refused": refused.code,
        "modules": len([importlib.import_module(each.name) for each in everything()]),
    }
    sys.stdout.write(json.dumps(said))


def everything() -> list[pkgutil.ModuleInfo]:
    """Every module that was made: each can be imported."""
    return list(pkgutil.walk_packages(rota_client.__path__, "rota_client."))


if __name__ == "__main__":
    main(*sys.argv[1:])
