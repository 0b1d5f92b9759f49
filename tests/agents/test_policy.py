"""The rules for schedules that agents make: laws, and the sentences that a model can act on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agents.policy import (
    Caller,
    Rules,
    check_interval,
    check_may_create,
    check_prompt,
    depth_of,
    expiry_of,
    needs_approval,
)
from rota.agents.schedules.agent_task import AgentPayload, ContextMode, content_digest
from rota.clock import DAY, MINUTE, SECOND
from rota.errors import LimitExceeded, NotAllowed
from rota.triggers import Cron, Interval, Once

NOW = 1_767_603_600_000
RULES = Rules()
ANN = Caller.person("ann")
CHAT = Caller.agent("family")
RUN = Caller.agent("family", run_id="task-1-7", run_depth=1)
MAIN = Caller.agent("main", is_main=True)


def test_depth_counts_from_the_person() -> None:
    assert [depth_of(caller) for caller in (ANN, CHAT, MAIN, RUN)] == [0, 1, 1, 2]
    assert depth_of(Caller.agent("family", run_id="r", run_depth=0)) == 2, "also in a run of a person's own schedule"
    check_may_create(ANN, RULES)
    check_may_create(CHAT, RULES)
    with pytest.raises(NotAllowed, match="scheduled run may not"):
        check_may_create(RUN, RULES)
    check_may_create(RUN, Rules(max_depth=2))


@given(st.integers(0, 50), st.integers(0, 50))
def test_no_chain_of_schedules_is_longer_than_the_rule(depth: int, most: int) -> None:
    caller = Caller.agent("family", run_id="r", run_depth=depth)
    rules = Rules(max_depth=most)
    if depth_of(caller) > most:
        with pytest.raises(NotAllowed):
            check_may_create(caller, rules)
    else:
        check_may_create(caller, rules)
        assert depth_of(caller) > depth


@pytest.mark.parametrize(
    ("policy", "who"), [("all", {"family", "main"}), ("untrusted", {"family"}), ("none", set[str]())]
)
def test_who_waits_for_approval(policy: str, who: set[str]) -> None:
    rules = Rules(approval=policy)  # pyright: ignore[reportArgumentType]
    assert {caller.group for caller in (CHAT, MAIN) if needs_approval(caller, rules)} == who
    assert not needs_approval(ANN, rules)


@given(st.integers(SECOND, 30 * DAY))
def test_an_interval_is_taken_exactly_from_five_minutes_on(every_ms: int) -> None:
    trigger = Interval(every_ms, anchor_at=NOW)
    check_interval(trigger, ANN, RULES, NOW)
    if every_ms >= 5 * MINUTE:
        check_interval(trigger, CHAT, RULES, NOW)
    else:
        with pytest.raises(LimitExceeded, match="5m is the shortest"):
            check_interval(trigger, CHAT, RULES, NOW)


@pytest.mark.parametrize("expression", ["* * * * *", "0,1 9 * * *", "*/4 * * * *", "* * * * * *", "0,1 0 1 1 *"])
def test_a_cron_pattern_is_refused_for_its_shortest_gap(expression: str) -> None:
    with pytest.raises(LimitExceeded, match="shortest"):
        check_interval(Cron(expression, "UTC"), CHAT, RULES, NOW)


@pytest.mark.parametrize("expression", ["*/5 * * * *", "0 9 * * 1-5", "0 0 29 2 *", "55 23 * * *"])
def test_a_cron_pattern_with_wide_gaps_is_taken(expression: str) -> None:
    check_interval(Cron(expression, "Europe/Berlin"), CHAT, RULES, NOW)


def test_a_single_fire_has_no_gap() -> None:
    check_interval(Once(NOW + 1), CHAT, RULES, NOW)


@given(st.one_of(st.none(), st.integers(NOW, NOW + 100 * DAY)))
def test_an_agents_schedule_ends_within_a_month(wanted: int | None) -> None:
    assert expiry_of(wanted, ANN, RULES, NOW) == wanted
    if wanted is not None and wanted > NOW + 30 * DAY:
        with pytest.raises(LimitExceeded, match="leave it out"):
            expiry_of(wanted, CHAT, RULES, NOW)
        return
    ends_at = expiry_of(wanted, CHAT, RULES, NOW)
    assert ends_at is not None
    assert NOW <= ends_at <= NOW + 30 * DAY


def digest_of(group: str, prompt: str, script: str | None, context_mode: ContextMode) -> str:
    does = AgentPayload(group_folder=group, chat_jid="", prompt=prompt, script=script, context_mode=context_mode)
    return content_digest(does, None, None)


@given(st.text(), st.text(), st.one_of(st.none(), st.text()), st.one_of(st.none(), st.text()))
def test_the_digest_changes_with_what_a_schedule_does(
    prompt: str, other: str, script: str | None, gate: str | None
) -> None:
    same = (prompt, script) == (other, gate)
    assert (digest_of("g", prompt, script, "isolated") == digest_of("g", other, gate, "isolated")) is same
    assert digest_of("g", prompt, script, "isolated") != digest_of("h", prompt, script, "isolated")
    assert digest_of("g", prompt, script, "isolated") != digest_of("g", prompt, script, "group")


def test_prompts_have_a_length() -> None:
    for prompt, words in (("  ", "empty"), ("x" * 32_001, "32,000")):
        with pytest.raises(Exception, match=words):
            check_prompt(prompt, RULES)


def test_whose_schedules_a_caller_may_touch() -> None:
    matrix = {
        caller.name: [caller.may_touch(group) for group in ("main", "family", "work")] for caller in (ANN, MAIN, CHAT)
    }
    assert matrix == {"ann": [True] * 3, "agent:main": [True] * 3, "agent:family": [False, True, False]}
