"""A run as the text of a test: it is Python, whatever stands in the key and the payload."""

from __future__ import annotations

import ast

import pytest

from rota.app.as_test import AppImport, as_test
from rota.core.task import RunRecord, RunStatus
from rota.keys import GLOBAL_KEY


def text_of(key: str, payload: str | None, where: AppImport | None = None, user: str | None = None) -> str:
    run = RunRecord(task_type="charge_card", key=key, run_id="17", status=RunStatus.ERROR, started_at=0, user_id=user)
    return as_test(run, None, payload, where)


def test_it_reads_like_one_written_by_hand() -> None:
    text = text_of("c1", '{"card":"7","tries":null}', AppImport("shop.tasks", "app"), "u1")
    assert (
        text
        == '''"""Run 17 of charge_card/c1, once more: this test fails as long as the work does."""

import pytest

from shop.tasks import app as my_app


@pytest.mark.asyncio
async def test_charge_card_c1(rota_use):
    app = rota_use(my_app)  # on a clock of its own and a store in memory
    payload = {'card': '7', 'tries': None}
    made = await app.schedule("charge_card", payload, key="c1", user_id="u1")
    await app.run_until_idle()
    task = await app.tasks.get("charge_card", key=made.key)
    assert task.status == "completed", task.error
'''
    )


def test_a_secret_is_hidden_and_said_to_be() -> None:
    text = text_of("c1", '{"api_key":"sk-live-0123456789abcdef"}')
    assert "sk-live" not in text
    assert "'***'" in text
    assert "put one for tests in its place" in text
    assert "# Change this line" in text


def test_a_task_of_its_type_alone_has_no_key() -> None:
    text = text_of(GLOBAL_KEY, None)
    assert 'await app.schedule("charge_card")' in text
    assert "payload" not in text


@pytest.mark.parametrize("key", ['a"b', 'a\'b"""', "a\nb", "ключ", "/../", '"""', "\\", "x" * 300])
def test_it_is_python_whatever_the_key_is(key: str) -> None:
    payload = '{"text": "\\"\\"\\" \\\\ \\n", "long": [' + ", ".join(["true"] * 200) + "]}"
    tree = ast.parse(text_of(key, payload, None, key))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "app.schedule"]
    (call,) = calls
    assert {each.arg: ast.literal_eval(each.value) for each in call.keywords} == {"key": key, "user_id": key}
