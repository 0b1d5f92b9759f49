"""The words of the offline generator that belong to no culture: what people do, what places are known for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["WORDS"]


def _list(words: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in words.split(","))


WORDS: Final[Mapping[str, Sequence[str]]] = {
    "deed": _list(
        """never breaks an oath, owes a debt to the wrong person, speaks with the dead in dreams, can read any map
        but their own, keeps a list of every lie, gave up a crown for a song, has walked further than any living
        soul, remembers every face, sleeps only in the open, guards a door that nobody has seen, was raised by an
        enemy, carries a letter that must not be opened, talks to horses and listens to them, fears nothing but
        still water, once outwitted a king, has buried three names already, laughs at the wrong moments, trades in
        secrets, is looking for a lost twin, wins every game but the last, tends a garden that blooms in winter,
        pays every debt twice, knows the old roads by heart, cannot be drowned, mends what others throw away,
        still waits for a ship, has never told the same tale twice, lost a shadow in a bet"""
    ),
    "temper": _list(
        """quiet, quick-witted, stubborn, cheerful, watchful, gentle, proud, restless, patient, sharp-tongued,
        generous, melancholy, fearless, careful, curious, solemn, warm-hearted, sly, blunt, dreamy"""
    ),
    "fate": _list(
        """wanted in three towns, a teacher of unwilling pupils, the last who knows the way, travelling under another
        name, married to the sea, in the service of a stranger, keeper of an empty house, on the road to settle an
        old score, the richest soul in the valley, blind and seldom wrong, hunting what burned the harvest, guest
        at every table"""
    ),
    "fame": _list(
        """whose word settles quarrels, whom children follow, of whom songs are sung, feared by tax collectors, known
        in every harbour, said to be cursed, older than anyone can prove, with one blue and one brown eye, who is
        never late, with a voice like gravel"""
    ),
    "where": _list(
        """at the end of the old road, between two rivers, under a leaning cliff, above the clouds, behind three
        gates, at the mouth of a cold river, on an island that the tide hides, in the shadow of a dead volcano,
        where four roads meet, below a glacier, at the edge of the maps, among drowned trees, in a bend of the
        river, two days from anywhere, on stilts above the water, around a bottomless well"""
    ),
    "feature": _list(
        """Cliffs, Marsh, Vale, Spire, Crossing, Hollow, Falls, Reach, Harbour, Steps, Gate, Barrow, Isle, Springs,
        Woods, Heath, Watch, Rest, Landing, Stones, Terrace, Mirror"""
    ),
    "renown": _list(
        """its honey, a bell that rings by itself, the best smiths of the coast, its silence, a market of small
        wonders, its blue lamps, the kindness of strangers, a feud nobody remembers the cause of, its white
        horses, bitter tea, songs without words, doors without locks, its weather, a tree older than the law, its
        masks, slow justice, dancing until dawn, its library of letters never sent"""
    ),
    "rumour": _list(
        """the dead are said to vote, no one has been born for nine years, strangers eat for free, every door faces
        east, the fog comes when it is called, nobody speaks before noon, a king hid and was forgotten, the stones
        are warm in winter, promises are carved into walls, rivers are given names like children, the stars seem
        nearer, thieves leave more than they take, cats keep the accounts, the snow falls upwards once a year"""
    ),
    "rumour_now": _list(
        """only the wind keeps house there, it is the seat of a new power, pilgrims sleep in its ruins, nobody agrees
        on who owns it, it trades in rumours, half of it lies under water, it is rich again and ashamed of it, its
        gates are never closed, foxes live in the tower, its people wait for a sign"""
    ),
    "mood": _list(
        """wind-worn, sleepy, proud, half-forgotten, bustling, moonlit, haunted, sun-bleached, quiet, stubborn,
        rain-grey, hospitable, secretive, prosperous, weathered"""
    ),
    "worn": _list(
        """Frostbitten, Moonlit, Weeping, Gilded, Nameless, Singing, Broken, Oathbound, Thrice-Forged, Salt-Stained,
        Whispering, Ashen, Sunken, Ember-Lit, Borrowed, Hollow, Wandering, Silent, Twilight, Star-Cut, Bone-White,
        Storm-Born, Patient, Unfinished, Thorned, Mirrored, Blood-Red, Sleepless, Verdant, Copper, Amber,
        Obsidian, Widow's, Pilgrim's, Beggar's, Traitor's, Smuggler's, Dreamer's, Exile's, Last, Elder, Jade,
        Ivory, Rusted, Sunlit, Winter, Harvest, Midnight, Honest, Laughing, Feathered, Braided, Crooked, Veiled,
        Faithful"""
    ),
    "hue": _list(
        """White, Black, Red, Silver, Golden, Azure, Grey, Crimson, Pale, Burning, Sleeping, Blind, Crowned, Winged,
        Weeping, Hidden, Rising, Fallen, Hollow, Broken, Silent, Twin, Last, First, Wandering, Iron, Jade, Amber,
        Copper, Frozen, Laughing, Masked, Unbound, Drowned, Gentle, Moonlit, Scarlet, Ivory, Ashen"""
    ),
    "idea": _list(
        """Second Chances, Quiet Waters, Broken Vows, Long Memory, the Open Road, Small Mercies, First Snow, Lost
        Letters, Borrowed Time, Bitter Roots, Deep Winter, the Last Harvest, Unspoken Names, Slow Fire, Safe
        Return, Empty Thrones, the Ninth Hour, False Dawn, Patient Stone, Old Debts, the Turning Tide, Hidden
        Doors, Shared Bread, Distant Thunder"""
    ),
    "power": _list(
        """it hums when a lie is told, it never lets its bearer lose the way, it is warm in the presence of the dead,
        it wakes its owner before any danger, it makes the wind change its mind, it can be lost but never stolen,
        it opens what was closed in anger, it turns one blow a day aside, it remembers every hand that held it, it
        shows the room as it was a year ago, it mends itself by moonlight, it grows heavier with each broken
        promise, it lets two people share one dream, it calls fish and frightens crows, it keeps bread fresh and
        milk sweet, it burns without being consumed, it answers one question each winter, it silences every bell
        nearby, it points to the nearest water, it makes a crowd forget a face"""
    ),
    "price": _list(
        """its bearer forgets a name each time, never twice for the same hand, only for those who ask politely, it
        drinks the warmth of the room, whoever sells it regrets it, it must be fed with salt, never on a rainy
        day, it wants to be carried home, someone nearby will sneeze, it always tells its former owner, not while
        the sun is up, its owner casts no reflection"""
    ),
    "found": _list(
        """in the belly of a fish, under the floor of a burned hall, at a market at midnight, frozen in a glacier, in
        the hand of a statue, wrapped in a love letter, among the debts of a dead king, in a well after the
        drought, behind a loose brick, on a beach after the storm"""
    ),
    "manner": _list(
        """Silent, Rising, Hidden, Unbroken, Falling, Patient, Twin, Sudden, Hollow, Burning, Frozen, Ninefold,
        Phantom, Iron, Gentle, Reckless, Whispered, Ancestral, Mirror, Thunderous, Drifting, Lunar, Solar,
        Feigned, Steadfast, Blind, Echoing, Serene, Merciless, Wandering, Shattering, Veiled, Crimson, Bitter,
        Waking, Tidal, Swift, Endless, Graceful, Seventh, Forgotten, Cunning, Rooted, Star-Led, Winter, Ember,
        Last"""
    ),
    "move": _list(
        """Strike, Step, Ward, Chant, Gaze, Oath, Dance, Stance, Breath, Cut, Whisper, Call, Veil, Leap, Grasp, Song,
        Snare, Parry, Mending, Sight, Fist, Arrow, Palm, Guard, Touch, Rush, Feint, Vigil, Binding, Riposte,
        Shout, Trance, Grip, Kick, Blessing, Shadow"""
    ),
    "feat": _list(
        """cross a room unseen, calm any animal, strike twice with one blow, hear a heartbeat through a wall, hold a
        breath for an hour, walk on water a child could wade through, bend a blade without touching it, heal a
        wound that is less than a day old, find what was hidden in haste, speak in the voice of another, stand
        where no one could stand, see in complete darkness, catch an arrow in flight, break stone with an open
        hand, fall from any height, put a guard to sleep, read a letter without opening it, turn an enemy's
        strength around, send a warning on the wind, remember everything once seen, leave no footprints, light a
        fire in the rain"""
    ),
    "limit": _list(
        """once a day, but only in silence, as long as the moon is up, at the cost of a night's sleep, if nobody
        watches, once for each scar, but never in anger, with bare feet only, until the next bell, at arm's
        length, after a deep breath, but never against kin"""
    ),
    "gesture": _list(
        "breath, word, glance, turn of the wrist, step, note, touch, stroke of a brush, knock, bow, drop of water, clap"
    ),
    "span": _list(
        """a song lasts, a candle burns, the eyes stay closed, both feet touch the ground, nobody speaks, the rain
        falls, one breath holds, the drum is beaten, hands are joined, the name is remembered"""
    ),
    "members": _list(
        """merchants, exiles, scholars, former soldiers, wanderers, healers, widows, younger sons, mapmakers, old
        rivals, singers, night watchmen, orphans, ferrymen, deserters, craftsmen"""
    ),
    "purpose": _list(
        """guard the old roads, collect forbidden songs, settle blood feuds, buy the freedom of debtors, hunt what
        hunts by night, keep a library of oaths, smuggle medicine, watch the stars for a sign, train heirs in
        secret, lend money to kings, bury the unclaimed dead, break unjust seals, carry letters through war,
        protect the last wells, record every promise, search for a lost gate, brew the best ale and the worst
        plots, keep a fire that must not go out"""
    ),
    "secret": _list(
        """answer to nobody, serve a queen who never lived, have not met in a single room for years, keep their
        founder in a tower, are paid in favours, count an enemy among them, vote with pebbles, know each other
        only by their rings, have never lost a wager, are nearly out of money, wear grey at weddings, burn every
        letter"""
    ),
    "ritual": _list(
        """salt and silence, a night without fire, front of an empty chair, the presence of a rival, cold water,
        borrowed robes, front of a mirror, three languages, the dark of the moon, the light of one candle"""
    ),
}
