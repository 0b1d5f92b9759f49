"""Summaries: at most 200 characters, and none of them cut in half."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.agents.runs.run_store import SUMMARY_LENGTH, cut, summary_of

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
THUMB = "\U0001f44d\U0001f3fd"
GERMANY = "\U0001f1e9\U0001f1ea"
ACCENT = "e\u0301"
HANGUL = "\u1112\u1161\u11ab"
HINDI = "\u0928\u093f"
THAI, NARROW, CONJUNCT = "\u0e01\u0e33", "\uff76\uff9e", "\u0915\u094d\u0937"
OLD_HANGUL, NUMBER_SIGN = "\ua960\ud7b0\ud7cb", "\u06001"
RARE = [THAI, NARROW, CONJUNCT, OLD_HANGUL, NUMBER_SIGN, "\u0646\u200c"]
WHOLE = [FAMILY, THUMB, GERMANY, ACCENT, HANGUL, HINDI, "\r\n", "\ufe0f\u20e3".join(["1", ""]), *RARE]


@pytest.mark.parametrize("character", WHOLE)
@pytest.mark.parametrize("before", range(SUMMARY_LENGTH - 8, SUMMARY_LENGTH + 1))
def test_a_character_of_several_code_points_is_kept_or_left_out_whole(character: str, before: int) -> None:
    text = "x" * before + character + "y" * 50
    cut_text = cut(text)
    assert len(cut_text) <= SUMMARY_LENGTH
    kept = cut_text[before:]
    assert kept == "" or kept.startswith(character)


def test_flags_in_a_row_are_cut_between_two_flags() -> None:
    assert cut("x" + GERMANY * 200) == "x" + GERMANY * 99


def test_a_single_character_beyond_the_limit_is_cut_after_all() -> None:
    assert cut("e" + "\u0301" * 500) == "e" + "\u0301" * (SUMMARY_LENGTH - 1)


@given(st.text(max_size=400))
def test_a_cut_text_is_the_beginning_of_the_text_and_can_be_stored(text: str) -> None:
    short = cut(text)
    assert len(short) <= SUMMARY_LENGTH
    assert text.replace("\0", "\ufffd").startswith(short)
    if len(text) <= SUMMARY_LENGTH:
        assert len(short) == len(text)
    assert bool(short) == bool(text)


ALPHABET = st.sampled_from([*WHOLE[:6], "a", "ß", "中", " "])


@settings(max_examples=50)
@given(st.lists(ALPHABET, min_size=90, max_size=220))
def test_what_is_left_out_never_begins_with_a_mark(characters: list[str]) -> None:
    text = "".join(characters)
    rest = text[len(cut(text)) :]
    assert not rest or unicodedata.category(rest[0]) not in ("Mn", "Mc", "Me")
    whole, length = set[int](), 0
    for character in characters:
        whole.add(length)
        length += len(character)
    assert len(cut(text)) in {*whole, length}


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=300))
def test_lone_surrogates_and_nul_do_not_survive(text: str) -> None:
    cut(text).encode("utf-8")
    assert "\0" not in cut(text)


def test_the_three_forms_of_a_last_result() -> None:
    assert summary_of(None, "no key") == "Error: no key"
    assert summary_of("  all is well \n", None) == "all is well"
    assert summary_of(None, None) == summary_of("", None) == summary_of("  ", None) == "Completed"
    assert len(summary_of("x" * 1_000, None)) == 200
