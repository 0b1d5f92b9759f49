"""Items without a network: put together from the words of a culture, and the same for the same seed everywhere.

It is what people see in their first minute, and what tests and demos run on. No model is asked, so nothing is spent.
The style chooses the culture ("nordic", "wuxia"); without a hint there the seed does, for the whole batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from rota.batches.dedupe import Kind, Seen, threshold_of
from rota.batches.generators.base import Generated, GenerationRequest, Item, item_of, seed_of, style_text
from rota.batches.generators.cultures import Culture, Parts, culture_for
from rota.batches.generators.words import WORDS

__all__ = ["OfflineGenerator"]

_TRIES: Final = 40
"""How often a name may be thrown again for each item, before there are too few left."""
_TRIES_OF_END: Final = 6


class OfflineGenerator:
    """The default."""

    async def generate(self, request: GenerationRequest) -> Generated:
        return Generated(_items(request))

    def estimate(self, type: str, count: int, style: str | dict[str, Any]) -> int:  # noqa: A002 - the word of requests
        """None: no model is asked."""
        return 0

    async def close(self) -> None: ...


def _items(request: GenerationRequest) -> list[Item]:
    # No two names that would be taken for one: whatever is thrown away later has to be asked for again.
    seen = Seen(request.avoid, threshold_of(request.type))
    culture = culture_for(style_text(request.style), request.seed)
    chance = Random(f"{seed_of(request)} {culture.name}")  # noqa: S311 - the same for the same seed is what is wanted
    teller = _Teller(chance, culture)
    make = _MAKERS.get(request.type) or _other(request.type)
    items: list[Item] = []
    for _ in range(request.count * _TRIES):
        if len(items) == request.count:
            break
        name, description = make(teller)
        if not _says_twice(name) and seen.take(name).kind is Kind.NEW:
            items.append(item_of(name, {"description": description}))
    return items


def _says_twice(name: str) -> bool:
    """Like "The Bell Bell"."""
    words = [word for word in name.lower().split() if word not in ("of", "the")]
    return len(set(words)) < len(words)


# --- words -----------------------------------------------------------------------------------------------------------


class _Teller:
    """Fills the gaps of a text: {place} is some place of the culture, {deed} some deed."""

    def __init__(self, chance: Random, culture: Culture) -> None:
        self.chance = chance
        self.culture = culture

    def one_of(self, words: Sequence[str]) -> str:
        return words[int(self.chance.random() * len(words))]

    def told(self, template: str, **known: str) -> str:
        return _GAP.sub(lambda gap: known.get(gap[1]) or self._word(gap[1]), template)

    def sentence(self, template: str, **known: str) -> str:
        text = self.told(template, **known)
        text = _ARTICLE.sub(lambda found: f"{found[1]}n {found[2]}", text)
        return f"{text[0].upper()}{text[1:]}."

    def made_of(self, parts: Parts) -> str:
        begin, end = self.one_of(parts.begins), self.one_of(parts.ends)
        for _ in range(_TRIES_OF_END):
            if _fit(begin, end):
                break
            end = self.one_of(parts.ends)
        return _joined(begin, end)

    def person(self) -> str:
        """A full name."""
        culture, is_woman = self.culture, self.chance.random() < 0.5
        given = self.made_of(culture.women if is_woman else culture.men)
        family, byname = self.made_of(culture.families), self.one_of(culture.bynames)
        if is_woman:
            family, byname = self._of_woman(family), self._of_woman(byname)
        templates = (culture.full_of_women or culture.full) if is_woman else culture.full
        return self.told(self.one_of(templates), given=given, family=family, byname=byname)

    def _of_woman(self, name: str) -> str:
        for end, instead in self.culture.endings_of_women:
            if name.endswith(end):
                return name.removesuffix(end) + instead
        return name

    def _word(self, gap: str) -> str:
        culture = self.culture
        if gap in ("father", "man"):
            return self.made_of(culture.men)
        if gap == "given":
            return self.made_of(culture.women if self.chance.random() < 0.5 else culture.men)
        if gap == "family":
            return self.made_of(culture.families)
        if gap == "place":
            return self.made_of(culture.places)
        if gap == "culture":
            return culture.name
        if gap == "near":
            return self.told(self.one_of(culture.near))
        return self.one_of(_OF_CULTURE[gap](culture) if gap in _OF_CULTURE else WORDS[gap])


_GAP: Final = re.compile(r"\{(\w+)\}")
_ARTICLE: Final = re.compile(r"\b([Aa]) ((?!one\b|uni)[aeiouAEIOU])")

_OF_CULTURE: Final[Mapping[str, Callable[[Culture], Sequence[str]]]] = {
    "land": lambda culture: culture.land,
    "role": lambda culture: culture.roles,
    "thing": lambda culture: culture.things,
    "sign": lambda culture: culture.signs,
    "group": lambda culture: culture.groups,
}


def _fit(begin: str, end: str) -> bool:
    """Whether two pieces of a name can be spoken as one, and do not say the same twice."""
    return not end or not (_clash(begin, end) or end in begin.lower())


def _joined(begin: str, end: str) -> str:
    return begin[:-1] + end if end and _clash(begin, end) else begin + end


def _clash(begin: str, end: str) -> bool:
    return begin[-1] == end[0] or (begin[-1] in "aeiouy" and end[0] in "aeiou")


# --- types -----------------------------------------------------------------------------------------------------------


def _character(teller: _Teller) -> tuple[str, str]:
    return teller.person(), teller.sentence(teller.one_of(_PEOPLE))


def _from(names: Sequence[str], descriptions: Sequence[str]) -> Callable[[_Teller], tuple[str, str]]:
    def make(teller: _Teller) -> tuple[str, str]:
        return _capital(teller.told(teller.one_of(names))), teller.sentence(teller.one_of(descriptions))

    return make


def _other(kind: str) -> Callable[[_Teller], tuple[str, str]]:
    """For a type that nobody knows here: names that suit most things, a tavern, a ship or a song."""
    label = " ".join(kind.replace("_", " ").replace("-", " ").split()) or "thing"
    # What a user calls a type is no template.
    plain = label.replace("{", "(").replace("}", ")")
    return _from(_NAMES_OF_ANYTHING, [template.replace("{label}", plain) for template in _ANYTHING])


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


_PEOPLE: Final = (
    "a {role} from {place} who {deed}",
    "a {temper} {role} who {deed}",
    "once a {role} in {place}, now {fate}",
    "a {role} {fame}, and {temper} in company",
)
_NAMES_OF_PLACES: Final = (
    *["{place}"] * 8,
    *["{near}"] * 5,
    *["{given}'s {feature}"] * 3,
    "the {hue} {feature}",
    "the {hue} {feature}",
    "{sign} {feature}",
)
_LANDSCAPES: Final = (
    "a {land} {where}, known for {renown}",
    "a {land} where {rumour}",
    "a {mood} {land} {where}",
    "once a {land}; today {rumour_now}",
)
_NAMES_OF_ITEMS: Final = (
    "{worn} {thing}",
    "{worn} {thing}",
    "{thing} of the {hue} {sign}",
    "{thing} of {place}",
    "{given}'s {thing}",
    "{thing} of {idea}",
    "the {sign} {thing}",
)
_ITEMS: Final = (
    "made by {given} of {place}; {power}",
    "{power}, but {price}",
    "a gift from a {role} of {place}; {power}",
    "found {found}; {power}",
)
_NAMES_OF_SKILLS: Final = (
    "{manner} {move}",
    "{manner} {move}",
    "{move} of the {hue} {sign}",
    "{sign}'s {move}",
    "{move} of {idea}",
    "{place} {move}",
)
_SKILLS: Final = (
    "lets its user {feat}, {limit}",
    "first taught by a {role} of {place}: whoever masters it can {feat}",
    "with one {gesture} its user can {feat}",
    "{feat} for as long as {span}",
)
_NAMES_OF_GROUPS: Final = (
    "{group} of the {hue} {sign}",
    "{group} of the {hue} {sign}",
    "the {place} {group}",
    "{group} of {idea}",
    "the {sign} {group}",
    "{given}'s {group}",
)
_GROUPS: Final = (
    "{members} who {purpose}, led from {place}",
    "founded by {given} of {place}; its members {purpose}",
    "{members} that {purpose}, and {secret}",
    "sworn in {ritual}, its people {purpose}",
)
_NAMES_OF_ANYTHING: Final = (
    "the {hue} {sign}",
    "{manner} {sign}",
    "{given}'s {sign}",
    "{sign} of {place}",
    "the {sign} and the {thing}",
    "{hue} {sign} of {place}",
)
_ANYTHING: Final = (
    "a {label} in the {culture} manner, known for {renown}",
    "a {mood} {label} that came from {place}",
    "a {label} of {given} of {place}; {rumour}",
)

_MAKERS: Final[Mapping[str, Callable[[_Teller], tuple[str, str]]]] = {
    "character_name": _character,
    "location_name": _from(_NAMES_OF_PLACES, _LANDSCAPES),
    "item": _from(_NAMES_OF_ITEMS, _ITEMS),
    "skill": _from(_NAMES_OF_SKILLS, _SKILLS),
    "organization": _from(_NAMES_OF_GROUPS, _GROUPS),
}
