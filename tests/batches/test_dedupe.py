"""Which names are the same: by laws, and by examples in several scripts."""

from __future__ import annotations

import unicodedata
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rapidfuzz import fuzz

from rota.batches.dedupe import MAX_NAME, THRESHOLDS, Kind, Seen, Verdict, normal, problem_of, sift, threshold_of

NAMES = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.text("abcdeÄéß ", max_size=14),
        st.sampled_from(["Eira Stormborn", "Eira Stormborne", "eira  stormborn", "北風", "北海", "ﬁn", "Straße"]),
    ),
    max_size=25,
)
THRESHOLD = st.sampled_from([0.92, 0.95, 0.97])


class Thing(NamedTuple):
    name: str


def things(*names: str) -> list[Thing]:
    return [Thing(name) for name in names]


@given(st.text(max_size=60))
def test_what_is_normal_stays_so(name: str) -> None:
    assert normal(normal(name)) == normal(name)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Zoë Müller", "ZOE MULLER"),
        ("\uff34\uff4f\uff4b\uff59\uff4f", "Tokyo"),
        ("STRASSE", "straße"),
        ("  Eira\u00a0 Storm\tborn ", "eira storm born"),
        ("Zoe\u0301", "Zoé"),
        ("Ada\u200bLovelace", "AdaLovelace"),
        ("\uff76\uff9e\uff72", "ガイ"),
        ("Ångström", "A\u030angstro\u0308m"),
    ],
)
def test_case_accents_and_width_make_no_other_name(name: str, other: str) -> None:
    assert normal(name) == normal(other)
    assert Seen([name]).check(other) == Verdict(Kind.EXACT, name)


@pytest.mark.parametrize(("name", "other"), [("カ", "ガ"), ("ハナ", "バナ"), ("กา", "กิ"), ("कल", "कुल")])
def test_marks_that_are_letters_of_their_script_count(name: str, other: str) -> None:
    assert normal(name) != normal(other)


@given(st.text("abcdefghij äöüéñ", min_size=1, max_size=40), st.booleans())
def test_variants_of_a_name_are_exact_twins(name: str, upper: bool) -> None:
    assume(problem_of(name) is None)
    variant = unicodedata.normalize("NFD", f"  {name} ")
    assert Seen([name]).check(variant.upper() if upper else variant).kind is Kind.EXACT


def test_names_that_are_alike_have_a_twin() -> None:
    seen = Seen(["Guild of the Red Hand", "Order of Ash"], threshold_of("organization"))
    assert seen.check("Guild of the Red Hands") == Verdict(Kind.SIMILAR, "Guild of the Red Hand")
    assert seen.check("Guild of the Red Moon") == Verdict(Kind.NEW)


@pytest.mark.parametrize("item_type", [*THRESHOLDS, "recipe"])
@pytest.mark.parametrize(
    ("name", "other"),
    [("Anna", "Hanna"), ("北風", "北海"), ("李白", "李黑"), ("Elin", "Elina"), ("Fireball", "Firewall")],
)
def test_short_names_are_not_alike_for_one_letter(item_type: str, name: str, other: str) -> None:
    assert Seen([name], threshold_of(item_type)).check(other).kind is Kind.NEW


def test_of_several_twins_it_is_the_first() -> None:
    seen = Seen(["Eira Stormborn of the North A", "Eira Stormborn of the North B"], 0.92)
    assert seen.check("Eira Stormborn of the North C").twin == "Eira Stormborn of the North A"


@pytest.mark.parametrize("name", ["", "  \t", "\u0301", "\u200b", "x" * (MAX_NAME + 1), "\ufdfa" * 20])
def test_what_is_no_name_says_why(name: str) -> None:
    assert problem_of(name)
    sifted = sift(things(name, "Ada"), [])
    assert (sifted.kept, [one.item.name for one in sifted.invalid]) == (things("Ada"), [name])
    assert sifted.invalid[0].reason == problem_of(name)


def test_first_come_first_kept() -> None:
    sifted = sift(things("Ada", "ADA", "Grace", "Eira Stormborne", "Barbara"), ["Eira Stormborn", "grace"])
    assert sifted.kept == things("Ada", "Barbara")
    assert [(one.item.name, one.twin, one.kind) for one in sifted.duplicates] == [
        ("ADA", "Ada", Kind.EXACT),
        ("Grace", "grace", Kind.EXACT),
        ("Eira Stormborne", "Eira Stormborn", Kind.SIMILAR),
    ]


@given(NAMES, NAMES, THRESHOLD)
def test_the_laws_of_sifting(names: list[str], there: list[str], threshold: float) -> None:
    sifted = sift(things(*names), there, threshold)
    kept = [thing.name for thing in sifted.kept]
    assert len(kept) + len(sifted.duplicates) + len(sifted.invalid) == len(names)
    pairs = [*combinations(kept, 2), *((one, other) for one in kept for other in there)]
    assert all(fuzz.ratio(normal(one), normal(other)) < threshold * 100 for one, other in pairs)
    again = sift(sifted.kept, there, threshold)
    assert (again.kept, again.duplicates, again.invalid) == (sifted.kept, [], [])
    assert sift(sifted.kept, [*there, *kept], threshold).kept == []
