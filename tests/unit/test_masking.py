"""Secrets in what people read: hidden by their names, by their shapes, and by the environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.masking import HIDDEN, Masker, is_secret_name, masker, unmasked

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "password"]), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my_password=hunter2 x", "my_password=*** x"),
        ('{"db_password": "abc", "n": 1}', '{"db_password": "***", "n": 1}'),
        ('password: str = "abc"', 'password: str = "***"'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("called with Bearer abcdefghijkl", "called with Bearer ***"),
        ("postgres://u:pw@h/db", "postgres://u:***@h/db"),
        ("key sk-abcdefghijklmnopqr was refused", "key *** was refused"),
        ("'api_key': 'with \\' in it'", "'api_key': '***'"),
        ("token=abc", "token=***"),
        ("lease token=17", "lease token=17"),
        ("password=None", "password=None"),
        ("the password was wrong", "the password was wrong"),
        ("tokens: 512", "tokens: 512"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    assert Masker().text(text) == shown


@pytest.mark.parametrize("name", ["password", "API-Key", "db_password", "access_token", "Authorization", "token"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["tokens", "max_tokens", "passenger", "keys", "key", "author"])
def test_names_of_others(name: str) -> None:
    assert not is_secret_name(name)


def test_values_are_hidden_whole() -> None:
    shown = Masker().value({"user": "u1", "password": {"old": "a", "new": "b"}, "urls": ["http://u:p@h/"]})
    assert shown == {"user": "u1", "password": HIDDEN, "urls": [f"http://u:{HIDDEN}@h/"]}


def test_what_the_environment_holds_is_hidden_anywhere() -> None:
    assert Masker(["plain-words"]).text("said plain-words aloud") == f"said {HIDDEN} aloud"
    assert Masker(["short"]).text("a short text") == "a short text"


@pytest.mark.parametrize(
    "part", ["x", "password", "-eyJ", "a.", "://a:", "token ", 'password="', "\\", "Bearer ", "-----BEGIN ", "sk-", "'"]
)
def test_a_hostile_text_takes_no_time_to_speak_of(part: str) -> None:
    # Where the time grows with the square of the length, this one does not end.
    Masker().text(part * (100_000 // len(part)))
    Masker().text('password="' + part * (100_000 // len(part)))


@given(json_values)
def test_what_was_not_changed_comes_back_as_it_was(value: object) -> None:
    assert unmasked(masker().value(value), value) == value


def test_a_change_keeps_the_secrets_beside_it() -> None:
    original = {"to": "a@b.c", "password": "hunter2", "parts": [{"token": "t"}]}
    edited = {"to": "x@b.c", "password": HIDDEN, "parts": [{"token": HIDDEN}], "more": 1}
    assert unmasked(edited, original) == {"to": "x@b.c", "password": "hunter2", "parts": [{"token": "t"}], "more": 1}


def test_the_folder_of_a_shell_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/srv/shop-of-ada")
    monkeypatch.setenv("SHOP_PWD", "correct horse")
    masker.cache_clear()
    try:
        assert masker().text("/srv/shop-of-ada/cards.py: correct horse") == f"/srv/shop-of-ada/cards.py: {HIDDEN}"
    finally:
        masker.cache_clear()
