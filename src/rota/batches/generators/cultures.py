"""The word material of the offline generator: how names sound in nine cultures, and what is seen there.

Names are put together from a beginning and an end, so that few words give thousands of names. They are in the manner of
a culture, as in tales, and no record of it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rota.batches.dedupe import normal

__all__ = ["CULTURES", "Culture", "Parts", "culture_for"]


class Parts(NamedTuple):
    """Beginnings and ends: each end fits each beginning."""

    begins: tuple[str, ...]
    ends: tuple[str, ...]


class Culture(NamedTuple):
    name: str
    """As an adjective: "a Norse hall"."""
    called: str
    """By which words a style asks for it: regular expressions, in small letters without accents."""
    men: Parts
    women: Parts
    families: Parts
    full: tuple[str, ...]
    """How a full name is made: {given}, {family}, {father} (a man's name), {place}, {byname}."""
    full_of_women: tuple[str, ...]
    """The same, where it is different for women; empty if it is not."""
    endings_of_women: tuple[tuple[str, str], ...]
    """How a family's name, or a byname, ends for a woman instead."""
    bynames: tuple[str, ...]
    places: Parts
    near: tuple[str, ...]
    """Names of places with another word to them; {place} stands in each."""
    land: tuple[str, ...]
    """What a place is: "a fishing village"."""
    roles: tuple[str, ...]
    things: tuple[str, ...]
    signs: tuple[str, ...]
    """What is painted on shields there."""
    groups: tuple[str, ...]


def _of(begins: str, ends: str) -> Parts:
    return Parts(tuple(begins.split()), tuple("" if end == "-" else end for end in ends.split()))


def _list(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())


NORSE: Final = Culture(
    name="Norse",
    called=r"nord\w*|norse\w*|viking\w*|wiking\w*|scandinav\w*|skandinav\w*|iceland\w*|norweg\w*|norway|swed\w*|danish"
    r"|北欧|维京|ヴァイキング|викинг\w*|saga",
    men=_of(
        "Thor Sig Hal Ei Gunn Ulf Rag Ket Stein As Val Vig Leif Bryn Dag Ey Frey Geir Grim Har Her Hjal Ing Jor Kol Od"
        " Orm Skjal Sne Svein Tor Yng Bjorn Arn Hroth Tyr",
        "ar vald mund grim stein ulf bjorn geir kel finn rik var leif thor dan brand mar gaut vard",
    ),
    women=_of(
        "Thor Sig Hal As Gunn Frey Ing Bryn Ragn Alf Dag Ey Grim Her Hjor Jor Svan Vig Yr Sol Ast Ei Hild Sif Run Aud",
        "dis run hild a rid gerd laug vor ny fridr borg veig ja unn",
    ),
    families=_of(
        "Iron Storm Raven Wolf Frost Oak Ash Stone Salt Black Red Half Sea Snow Bear Long Shield Ember Hail North",
        "mane borne hand helm brow axe song tooth keel heart cloak beard",
    ),
    full=("{given} {father}son", "{given} {father}son", "{given} {byname}", "{given} {family}", "{given} of {place}"),
    full_of_women=(
        "{given} {father}sdottir",
        "{given} {father}sdottir",
        "{given} {byname}",
        "{given} {family}",
        "{given} of {place}",
    ),
    endings_of_women=(),
    bynames=_list(
        "the Red, the Tall, the Silent, the Far-Travelled, the Lawspeaker, the Lucky, the Grey, the Oathkeeper,"
        " Silverhair, the Skald, the Unburnt, the Deep-Minded, Half-Troll, the Fair, the Stubborn, Two-Ships, the"
        " Black, Bare-Legs, the Dreamer, the Ferryman, Ice-Eye, the Late, Good-Axe, the Old"
    ),
    places=_of(
        "Skar Hrafn Ulf Frost Sne Thor Bjark Eld Grim Holm Kald Lang Myr Nord Svart Stor Tind Vest Vind Ask Drang Fjall"
        " Gra Hvit Isa Jarn Krag Leir Mos Rauf Sand Tor",
        "heim vik fjord gard holm ness dal borg foss vatn by stad lund havn skog tun ey voll",
    ),
    near=(
        "{place} Sound",
        "Old {place}",
        "the Skerries of {place}",
        "{place} Pass",
        "Upper {place}",
        "{place} Landing",
    ),
    land=_list(
        "fishing village, fjord, longhouse settlement, whalers' harbour, mountain farm, market by the ice, ring of"
        " standing stones, birch forest, chain of skerries, chieftain's hall"
    ),
    roles=_list(
        "shipwright, skald, shield-bearer, whaler, rune carver, lawspeaker, sheep farmer, smith, navigator, seer, fur"
        " trader, huscarl"
    ),
    things=_list(
        "Axe, Drinking Horn, Arm Ring, Rune Stone, Shield, Cloak Pin, Spear, Sea Chest, Helm, Harpoon, Lyre, Sail,"
        " Amulet, Sword, Mead Bowl, Steering Oar"
    ),
    signs=_list(
        "Raven, Wolf, Longship, Serpent, Bear, Elk, Oak, Hammer, Falcon, Whale, Aurora, Icicle, Boar, Thunderhead"
    ),
    groups=_list("Hird, Oathband, Shieldwall, Crew, Moot, Hearth, Brotherhood, Company, Kin, Jomsguard"),
)

LATIN: Final = Culture(
    name="Roman",
    called=r"latin\w*|roman|romans|rome|romain\w*|romisch\w*|romano|romana|罗马|ローマ|antik\w*|римск\w*",
    men=_of(
        "Aulus Caius Decimus Flavius Gnaeus Lucius Marcus Manius Publius Quintus Servius Sextus Spurius Tiberius Titus"
        " Vibius Cassian Drusus Julian Valens",
        "-",
    ),
    women=_of(
        "Aurel Cass Claud Corn Drus Fab Flav Hor Jul Livi Luc Marc Oct Paul Pomp Sab Sever Silv Val Vib Tull Ter Calp"
        " Aem",
        "ia illa ina ana ilia entia",
    ),
    families=_of(
        "Aemil Aurel Calpurn Cass Claud Cornel Domit Fab Flamin Fulv Horat Jun Licin Manl Mar Oct Ovid Pompe Quinct"
        " Sept Serg Sulpic Terent Tull Valer Vitell",
        "ius",
    ),
    full=(
        "{given} {family} {byname}",
        "{given} {family} {byname}",
        "{given} {family}",
        "{given} {byname}",
    ),
    full_of_women=("{given} {family} {byname}", "{given} {byname}", "{given} {family}", "{given} of {place}"),
    endings_of_women=(("us", "a"),),
    bynames=_list(
        "Corvinus, Lupercus, Severus, Crassus, Varro, Scaevola, Cotta, Galba, Nerva, Rufus, Silvanus, Celer, Priscus,"
        " Lentulus, Maximus, Justus, Paetus, Sulla, Tacitus, Vatia, Aquila, Cicero, Dento, Flaccus, Merula, Naso,"
        " Pansa, Sabinus"
    ),
    places=_of(
        "Aquil Alb Arg Aur Bell Cast Coll Corv Fer Flam Flor Lac Laur Lup Mar Mont Nov Oliv Pin Pont Ros Sal Silv Tus"
        " Val Vin Vir",
        "ium entum anum ella inia onia ara etia ona ulae usium",
    ),
    near=(
        "Portus {place}",
        "Castra {place}",
        "Villa {place}",
        "Colonia {place}",
        "the Baths of {place}",
        "Mons {place}",
    ),
    land=_list(
        "harbour town, colony of veterans, hill fort, marble quarry, vineyard estate, provincial capital, river"
        " crossing, temple district, legion camp, spa"
    ),
    roles=_list(
        "centurion, orator, augur, wine merchant, aqueduct builder, senator's freedman, charioteer, physician,"
        " mosaicist, quaestor, gladiator, notary"
    ),
    things=_list(
        "Gladius, Signet Ring, Laurel Wreath, Amphora, Standard, Lorica, Stylus, Oil Lamp, Bust, Mosaic, Toga, Scales,"
        " Horn, Chariot, Wax Tablet, Fasces"
    ),
    signs=_list(
        "Eagle, She-Wolf, Laurel, Thunderbolt, Dolphin, Bull, Lion, Torch, Olive, Boar, Minotaur, Crown, Sphinx, Sun"
    ),
    groups=_list("Legion, College, Cohort, Order, Guild, Senate, Society, Vigil, Tribune's Circle, Brotherhood"),
)

SLAVIC: Final = Culture(
    name="Slavic",
    called=r"slavic\w*|slavon\w*|slaw\w*|russia\w*|russisch\w*|rus|polish|poland|poln\w*|czech\w*|ukrain\w*|serb\w*|bulgar\w*|balkan\w*|kiev\w*"
    r"|kyiv\w*|斯拉夫|スラヴ|слав\w*|русск\w*",
    men=_of(
        "Bole Brani Dobro Jaro Kazi Lyubo Mili Miro Msti Rado Rati Svyato Stani Vladi Vse Yaro Zdi Boro Drago Gosti"
        " Velye Slavo Tvrdi Vito Bogu Ostro",
        "slav mir bor gost polk rad dan voy",
    ),
    women=_of(
        "Bole Brani Dobro Jaro Lyubo Mili Miro Rado Svyato Stani Vladi Yaro Zdi Boro Drago Slavo Vito Bogu Ludo Vese"
        " Zvezda Rodo",
        "slava mira mila rada dana goda",
    ),
    families=_of(
        "Vol Med Sok Zim Lis Koval Mel Ryb Gor Bel Chern Dub Grom Kal Moroz Orl Petr Rad Sever Sobol Tikh Vor Yas Zor"
        " Krav Star",
        "ov enko ovich ski ak in",
    ),
    full=("{given} {family}", "{given} {family}", "{given} {byname}", "{given} of {place}"),
    full_of_women=("{given} {family}", "{given} {father}ovna", "{given} {byname}", "{given} of {place}"),
    endings_of_women=(("ov", "ova"), ("ski", "ska"), ("in", "ina")),
    bynames=_list(
        "the Bold, the Wise, Wolf-Foot, the Bellfounder, the Quiet, the Birch, Long-Sleeve, the Nightingale, the"
        " Grey-Eyed, the Ferryman, Three-Rivers, the Miller, the Unbowed, the Bee-Keeper, Firebird, the Hermit, the"
        " Younger, Crow-Friend"
    ),
    places=_of(
        "Bel Bor Chern Dub Gor Gra Kras Lip Med Nov Ol Per Rad Rost Sever Sol Stari Svet Tur Vel Vish Vol Yas Zag Zlat"
        " Mokr Kam",
        "ograd itsa ovo inka sk ov ets oslav ina yn ava opol evo",
    ),
    near=(
        "Stary {place}",
        "the Ford of {place}",
        "{place} Monastery",
        "Veliki {place}",
        "the Marshes of {place}",
        "Nova {place}",
    ),
    land=_list(
        "walled town, birch forest, monastery, river port, salt works, steppe outpost, village of bee-keepers, marsh,"
        " market town, mill on a slow river"
    ),
    roles=_list(
        "bee-keeper, boyar's heir, icon painter, bell founder, herbalist, river pilot, bard with a gusli, horse trader,"
        " midwife, hermit, blacksmith, hunter"
    ),
    things=_list(
        "Gusli, Sabre, Icon, Samovar, Fur Hat, Bell, Mortar, Embroidered Sash, Painted Egg, Sleigh, Amber Beads, Bear"
        " Spear, Honey Jar, Cloak, Bow, Spindle"
    ),
    signs=_list("Firebird, Bear, Birch, Wolf, Crane, Sun Wheel, Swan, Stag, Linden, Owl, Pike, Rooster, Bell, Frost"),
    groups=_list("Druzhina, Brotherhood, Veche, Guild, Artel, Sworn Band, Circle, Watch, Host, Sisterhood"),
)

ARABIC: Final = Culture(
    name="Arabian",
    called=r"arab\w*|persian\w*|persisch\w*|desert\w*|oriental\w*|bedouin\w*|beduin\w*|moorish|ottoman\w*|wuste\w*|sahara"
    r"|阿拉伯|アラビア|араб\w*|عرب\w*|islam\w*",  # noqa: RUF001 - another script is meant
    men=_of(
        "Adnan Anwar Asim Bashir Basim Daud Fadil Faris Farouk Ghassan Hakim Hamid Harun Hashim Idris Imran Jabir Jamal"
        " Kamil Karim Khalid Latif Majid Malik Mansur Munir Nabil Nadir Nasir Omar Qasim Rafiq Rashid Sabir Salim Samir"
        " Tahir Tariq Umar Wahid Yasin Yusuf Zahir Zayd Ziyad",
        "-",
    ),
    women=_of(
        "Aisha Amal Amina Asma Aziza Basma Dalia Dunya Farida Fatin Ghada Hadiya Hala Hanan Huda Iman Jamila Karima"
        " Khadija Laila Lubna Maha Malika Mariam Munira Nadia Najla Nawal Noor Rabia Rania Rashida Safiya Salma Samira"
        " Shirin Sumaya Thurayya Warda Yasmin Zahra Zaynab Zubayda",
        "-",
    ),
    families=_of(
        "al-Andalusi al-Baghdadi al-Basri al-Biruni al-Dimashqi al-Farsi al-Ghazali al-Hakim al-Halabi al-Hamawi"
        " al-Idrisi al-Jaziri al-Khwarizmi al-Kindi al-Maghribi al-Masri al-Mawsili al-Najdi al-Nuri al-Qasimi"
        " al-Qurashi al-Rashidi al-Tabari al-Tunisi al-Umari al-Warraq al-Yamani al-Zahrani al-Zubayri al-Sabah",
        "-",
    ),
    full=("{given} ibn {father}", "{given} {family}", "{given} {family}", "{given} {byname}", "{given} of {place}"),
    full_of_women=(
        "{given} bint {father}",
        "{given} {family}",
        "{given} {family}",
        "{given} {byname}",
        "{given} of {place}",
    ),
    endings_of_women=(),
    bynames=_list(
        "the Astronomer, the Generous, the Falconer, the Well-Finder, the Veiled, the Storyteller, the Patient, the"
        " Pearl Diver, the Just, the Calligrapher, the Night Rider, the Trustworthy, the Lamplighter, the Physician,"
        " the Wanderer, the Spice Merchant, the Star Reader, the Smiling"
    ),
    places=_of(
        "Al Bah Dar Far Ghad Ham Jab Kar Khal Lub Mad Maz Naj Qad Qas Ram Sab Sah Sam Tab Tar Wad Yath Zar Zub Mir Sul",
        "adan ira iyya una abad aris amir ayn uqa imah ara atin isan",
    ),
    near=(
        "Wadi {place}",
        "the Wells of {place}",
        "Qasr {place}",
        "Bab {place}",
        "the Gardens of {place}",
        "Jebel {place}",
    ),
    land=_list(
        "oasis, caravan town, walled garden city, salt flat, pearl harbour, desert fortress, spice market, canyon of"
        " carved tombs, observatory, palm valley"
    ),
    roles=_list(
        "caravan guide, astronomer, perfumer, calligrapher, pearl diver, falconer, physician, storyteller, water"
        " seller, judge, carpet weaver, poet"
    ),
    things=_list(
        "Scimitar, Oil Lamp, Astrolabe, Carpet, Coffee Pot, Veil, Oud, Signet, Perfume Flask, Hourglass, Dagger,"
        " Saddle, Mirror, Turban Jewel, Star Chart, Water Skin"
    ),
    signs=_list(
        "Crescent, Falcon, Scorpion, Palm, Lion, Pearl, Gazelle, Star, Simurgh, Lantern, Viper, Rose, Well, Sand Rose"
    ),
    groups=_list("Caravan, Brotherhood, Diwan, Guild, House, Order, Riders, Council, School, Lamp Bearers"),
)

JAPANESE: Final = Culture(
    name="Japanese",
    called=r"japan\w*|japon\w*|nippon|samurai|ninja|edo|shogun\w*|日本\w*|和風|японс\w*|anime",
    men=_of(
        "Hiro Taka Masa Kazu Yoshi Nobu Haru Toshi Aki Kiyo Mune Tada Yasu Shige Nao Tomo Kage Mitsu Yuki Michi Hide"
        " Katsu Sada Teru Tsune",
        "shi to nori hiko ya suke mitsu yuki taro kuni tomo kage mori hito ro masa",
    ),
    women=_of(
        "Aka Asa Aya Chi Fumi Hana Haru Hiro Ka Kazu Kiyo Mai Mi Mitsu Nao Natsu Nozo Rei Sa Sachi Shio Tama Tomo Yo Yu"
        " Yuki Ori Sumi",
        "ko mi ka na e yo ri ne ho se",
    ),
    families=_of(
        "Fuji Yama Taka Naka Matsu Kawa Ishi Kuro Shira Ao Aka Haya Hoshi Kane Kiku Mina Mori Nishi Oka Saka Sugi Tachi"
        " Tani Ume Kuma",
        "moto yama mura da zawa hara shima saki guchi no bayashi uchi mizu kawa se bana",
    ),
    full=("{family} {given}", "{family} {given}", "{family} {given}", "{given} of {place}", "{given} {byname}"),
    full_of_women=(),
    endings_of_women=(),
    bynames=_list(
        "the Swordsmith, of the Nine Bridges, the Tea Master, the Fox-Eyed, the Masterless, of the Red Gate, the"
        " Lantern Keeper, the Quiet, of the Snow Garden, the Ink Painter, the Ferryman, of the White Fan, the Bell"
        " Ringer, the Unsleeping, of the Last Watch, the Crane"
    ),
    places=_of(
        "Ao Aka Asa Fuka Fuji Hana Hoshi Iwa Kane Kaze Kiri Kita Kuro Matsu Mina Mizu Nagi Naru Saka Shira Taka Take"
        " Tsuki Ume Yuki Yoko Kami",
        "gawa yama dera jima machi hama saka zaki mori tani no mine hashi se ike minato",
    ),
    near=(
        "{place} Pass",
        "{place} Castle",
        "the Shrine of {place}",
        "New {place}",
        "{place} Springs",
        "the Bridge at {place}",
    ),
    land=_list(
        "mountain shrine, castle town, hot spring village, fishing harbour, bamboo valley, post town on the old road,"
        " terraced village, island monastery, river bend of willows, tea garden"
    ),
    roles=_list(
        "ronin, tea master, shrine keeper, swordsmith, ink painter, ferryman, puppet player, herbalist, castle"
        " carpenter, poet, fox hunter, lantern maker"
    ),
    things=_list(
        "Katana, Folding Fan, Tea Bowl, Fox Mask, Paper Lantern, Shamisen, Ink Stone, Naginata, Silk Robe, Koto, Prayer"
        " Beads, Bamboo Flute, Hairpin, Wind Bell, Scroll, War Drum"
    ),
    signs=_list(
        "Crane, Chrysanthemum, Fox, Carp, Maple Leaf, Wave, Moon, Plum Blossom, Tiger, Heron, Pine, Dragonfly,"
        " Cicada, Lotus"
    ),
    groups=_list("Clan, School, Circle, Lodge, Order, House, Brotherhood, Guard, Company, Temple"),
)

CHINESE: Final = Culture(
    name="Chinese",
    called=r"chines\w*|china|chinois\w*|wuxia|xianxia|xiuxian|mandarin\w*|中国\w*|中國\w*|武侠|仙侠|古风|китай\w*",
    men=_of(
        "An Bo Chang De Feng Guang Hai Hao Jian Jing Jun Kai Lei Ming Peng Qi Rui Shao Tian Wei Wen Xiang Yong Yun Zhen"
        " Zhi Zi Yu",
        "long jie ping xuan hua wen cheng hai lin ming yuan feng hong zhou qing han",
    ),
    women=_of(
        "Ai Bai Chun Dan Fang Fei Hong Hui Jia Jing Lan Li Ling Mei Min Ning Qing Rou Ruo Shu Wan Xia Xiao Xue Yan"
        " Yin Yu Yue Zi",
        "lan mei hua ying yan ning xin yue ping lian zhu rong fen shan yi xue",
    ),
    families=_of(
        "Li Wang Zhang Liu Chen Yang Zhao Huang Zhou Wu Xu Sun Hu Zhu Gao Lin He Guo Ma Luo Liang Song Zheng Xie Han"
        " Tang Feng Yu Dong Xiao Cheng Cao Yuan Deng Shen Zeng Peng Lu Su Jiang Cai Jia Ding Wei Xue Ye Yan Pan Du Dai"
        " Xia Zhong Tian Ren Fan Fang Shi Yao Liao Qin Bai Ouyang Sima Zhuge Murong",
        "-",
    ),
    full=("{family} {given}", "{family} {given}", "{family} {given}", "{family} {given}", "{family} {given} {byname}"),
    full_of_women=(),
    endings_of_women=(),
    bynames=_list(
        "of the Jade Gate, the Iron Flute, of the Ninth Peak, the Drunken Sword, of the Cold Spring, the Cloud"
        " Walker, of the Silent Bamboo, the Lamp Scholar, of the Yellow Crane, the River Hermit, of Plum Valley, the"
        " White Sleeve"
    ),
    places=_of(
        "An Bai Bei Bi Chang Chun Dong Feng Gu Hei Hong Huang Jin Jiu Lian Lin Long Lu Lan Nan Ping Qing Qiu Song Tai"
        " Tian Wu Xi Xian Yan Yu Yun Zhu Zi",
        "shan he jiang hu zhou cheng ling kou men tang xi yuan feng guan dao lin",
    ),
    near=(
        "{place} Pass",
        "the Pagoda of {place}",
        "{place} Gorge",
        "Old {place}",
        "the Nine Bends of {place}",
        "{place} Ferry",
    ),
    land=_list(
        "walled river city, mountain monastery, tea village, canal town, border pass, lake of lotuses, silk market,"
        " bamboo valley, cliff of carved statues, terraced hills"
    ),
    roles=_list(
        "wandering swordsman, court scholar, silk merchant, apothecary, river pirate, imperial clerk, alchemist, tea"
        " grower, kite maker, fortune teller, temple guard, opera singer"
    ),
    things=_list(
        "Jade Seal, Jian Sword, Silk Fan, Bronze Mirror, Guqin, Iron Flute, Tea Cup, Scroll, Incense Burner, Spear,"
        " Pearl, Gourd, Writing Brush, Paper Kite, Hairpin, War Drum"
    ),
    signs=_list(
        "Dragon, Phoenix, Crane, Lotus, Tiger, Plum Blossom, Tortoise, Bamboo, Cloud, Moon, Qilin, Carp, Pearl, Peony"
    ),
    groups=_list("Sect, Pavilion, Hall, School, Guild, House, Society, Escort, Palace, Alliance"),
)

CELTIC: Final = Culture(
    name="Celtic",
    called=r"celt\w*|kelt\w*|irish\w*|ireland|irisch\w*|scot\w*|schott\w*|welsh|wales|gael\w*|druid\w*|breton\w*|highland\w*"
    r"|凯尔特|ケルト|кельт\w*",
    men=_of(
        "Bran Cael Conn Cor Cath Cadw Dom Don Dun Faol Fin Fear Gwyd Lugh Mael Mor Nial Rua Tal Tad Caer Mad Ail Drust"
        " Eog",
        "an ach gan lan ell on wyn gal dan ric or",
    ),
    women=_of(
        "Bran Brig Caer Ceri Der Ea Eil Fin Gwen Ior Lia Mab Mor Nia Nol Ria Rhian Sorch Tar Una Blod Olw Ar Mae Sive",
        "na wen eth a idh lyn ach id een wyn dan ra",
    ),
    families=_of(
        "Brenn Cal Carr Conn Corm Cull Dal Don Dunn Far Finn Gall Kear Lor Mal Mur Nev Quill Rior Sull Tier Tull",
        "an igan ey in oran aghty ane ogue",
    ),
    full=("{given} O'{family}", "{given} Mac{family}", "{given} {byname}", "{given} ap {father}", "{given} of {place}"),
    full_of_women=("{given} Ni {family}", "{given} {byname}", "{given} O'{family}", "{given} of {place}"),
    endings_of_women=(),
    bynames=_list(
        "the Harper, Red-Hand, the Fair, of the Nine Wells, the Deer-Runner, the Dark, the Ogham-Cutter, Salmon-Wise,"
        " of the Hollow Hill, the Generous, Raven-Told, the Cattle-Lord, of the Mist, the Oakwise, Swift-Spear, the"
        " Lame, the Rowan, Silver-Tongue"
    ),
    places=_of(
        "Aber Ard Bally Bal Caer Carrick Clon Craig Dal Drum Dun Glen Inver Inis Kil Kin Knock Lis Loch Pen Rath Ros"
        " Strath Tulla",
        "more gal vannan darragh keen losk na nagh bran cullen duff gorm lea ryan nan toran wen maddan lyn moor",
    ),
    near=(
        "the Fords of {place}",
        "{place} Head",
        "the Stones of {place}",
        "{place} Moor",
        "Little {place}",
        "{place} Strand",
    ),
    land=_list(
        "ring fort, misty glen, holy well, cattle pasture, cliff monastery, crannog on a lake, sacred grove, windy"
        " headland, village of weavers, barrow of old kings"
    ),
    roles=_list(
        "harper, druid, cattle raider, weaver, healer, charioteer, smith, fosterling, keeper of a holy well, shepherd,"
        " storyteller, spear fighter"
    ),
    things=_list(
        "Harp, Torc, Cauldron, Spear, Ogham Stick, Brooch, Sickle, Chariot, War Horn, Oak Staff, Plaid, Silver Branch,"
        " Shield, Curragh, Drinking Cup, Sling"
    ),
    signs=_list("Stag, Salmon, Raven, Oak, Boar, Hare, Triskele, Rowan, Swan, Bull, Hound, Mist, Thistle, Otter"),
    groups=_list("Clan, Fianna, Grove, Kindred, Order, Circle, Warband, Company, Sisterhood, Hearth"),
)

ELVISH: Final = Culture(
    name="Elvish",
    called=r"elv\w*|elf|elfen\w*|elfisch\w*|fae|faer\w*|fairy|tolkien\w*|sylvan|精灵|エルフ|эльф\w*|elfique\w*",
    men=_of(
        "Ael Aran Cal Cel Dae El Er Fael Fin Gal Gil Hal Il Lir Lor Mel Naer Or Sil Tar Thal Thran Val Vor Yl Aer",
        "adan anor arion dir ion las lor mir dil rond thir aris endil ethas orin uil",
    ),
    women=_of(
        "Ael Ari Cal Cel Elo Er Fael Gal Il Isil Lath Lia Lir Luth Mel Mir Nae Nim Sae Sil Thel Ty Val Vae Yav Aer",
        "riel wen dria lith neth sil thien rian ilie mira elle anna nia essa",
    ),
    families=_of(
        "Star Moon Leaf Silver Dawn Dusk Night Sun Willow Mist Song Rain Wind Thorn Amber Dew Fern Sky",
        "whisper weaver fall glade runner singer bloom shade bow brook mantle light",
    ),
    full=("{given}", "{given} {family}", "{given} {family}", "{given} {byname}", "{given} of {place}"),
    full_of_women=(),
    endings_of_women=(),
    bynames=_list(
        "the Evergreen, of the Silver Bough, the Long-Remembering, the Starlit, of the Ninth Song, the Grey Wanderer,"
        " the Unfading, of the Hidden Stair, the Dreaming, the Last of the Watch, of the White Birches, the Far-Seeing"
    ),
    places=_of(
        "Ael Aman Caras Cel Dor Ered Eryn Ferin Gal Il Imla Lin Loth Lor Mith Nan Nim Ost Sil Tal Taur Thal Tir Val"
        " Yav",
        "oriel ondor anor ithil aden ethir uin aras iath elond amar enor imir oril",
    ),
    near=(
        "the Groves of {place}",
        "{place} Falls",
        "the Halls of {place}",
        "Hidden {place}",
        "the Lamps of {place}",
        "{place} Ford",
    ),
    land=_list(
        "city among the branches, hidden valley, grove of silver trees, ruined tower, lake that mirrors other stars,"
        " bridge of living roots, twilight harbour, meadow of lanterns, spring of memory, library in a hollow oak"
    ),
    roles=_list(
        "star reader, bowyer, keeper of songs, tree shaper, envoy, healer, blade dancer, moth tamer, archivist,"
        " wanderer, glass singer, warden of the wood"
    ),
    things=_list(
        "Longbow, Circlet, Moonblade, Lantern, Harp, Cloak, Leaf Brooch, Phial, Flute, Mirror, Star Map, Dagger,"
        " Quiver, Silver Thread, Crystal, Seed"
    ),
    signs=_list("Bough, Moth, Star, Stag, Moon, Nightingale, Fern, Unicorn, Dewdrop, Owl, Willow, Comet, Hart, Rain"),
    groups=_list("Court, Circle, Wardens, Choir, Order, House, Conclave, Host, Watch, Fellowship"),
)

FRENCH: Final = Culture(
    name="French",
    called=r"french\w*|france|francais\w*|franzos\w*|frances\w*|paris|parisian|gallic|provenc\w*|norman|normand\w*|musketeer\w*"
    r"|法国|フランス|франц\w*|chanson",
    men=_of(
        "Adrien Alain Amaury Armand Aubert Aurelien Bastien Baudouin Benoit Bertrand Blaise Clement Corentin Denis"
        " Didier Edmond Emeric Etienne Fabrice Florent Gaspard Gauthier Geoffroy Gilles Guillaume Hugues Jacques"
        " Jocelyn Josse Lambert Laurent Leandre Lothaire Luc Marcel Mathieu Mathurin Octave Olivier Pascal Perceval"
        " Raoul Remy Renaud Roland Sylvain Tancrede Theodore Thibault Tristan Valentin Yvain",
        "-",
    ),
    women=_of(
        "Adele Agathe Alienor Alix Amelie Anais Apolline Aude Aurore Beatrice Berthe Blanche Celeste Clemence"
        " Clotilde Colette Delphine Diane Edith Eleonore Elise Emmeline Esme Eulalie Fleur Genevieve Gisele Heloise"
        " Hermine Isabeau Isolde Jehanne Josephine Judith Lisette Lucienne Margot Marguerite Marion Mathilde Melisande"
        " Mireille Ninon Odette Oriane Perrine Rosalie Sidonie Solange Sylvie Violette Yolande",
        "-",
    ),
    families=_of(
        "Beau Bell Bois Brev Char Chant Clair Cour Dam Fleur Font Gran Haut Lav Mal March Mar Mont Mor Per Pont Roch"
        " Rouv Saint Val Vaux Ver Ville",
        "mont ville court fort eron elle ier age ault igny aux ard oise ange eau",
    ),
    full=("{given} de {family}", "{given} {family}", "{given} {family}", "{given} {byname}", "{given} of {place}"),
    full_of_women=(),
    endings_of_women=(),
    bynames=_list(
        "le Roux, the Cartographer, Sans-Repos, the Glass-Blower, le Brave, the Younger, Belle-Plume, the Vintner, of"
        " the Two Bridges, le Sage, Coeur-de-Chene, the Duellist, the Bell-Ringer, Bonne-Nuit, le Noir, the Organist"
    ),
    places=_of(
        "Aigue Arge Beau Belle Bourg Chante Clair Cler Fleur Font Grand Haute Lan Mar Mire Mont Noir Orl Pierre Pont"
        " Roche Roque Rou Vau Ver Ville",
        "mont vaux ville fort fontaine court champ val rive lac mare luc bois vigne lune pierre",
    ),
    near=(
        "{place}-sur-Mer",
        "{place}-le-Vieux",
        "Saint-{man}",
        "Saint-{man}-des-Bois",
        "Port-{place}",
        "{place}-les-Bains",
    ),
    land=_list(
        "vineyard village, cathedral town, chateau above a river, salt marsh, mill town, quiet abbey, lavender valley,"
        " harbour with blue shutters, market square, forest of old oaks"
    ),
    roles=_list(
        "vintner, musketeer, organist, perfumer, cartographer, pastry cook, duellist, bookbinder, novice, marionette"
        " player, glass-blower, gardener"
    ),
    things=_list(
        "Rapier, Locket, Music Box, Goblet, Tapestry, Pocket Watch, Plumed Hat, Perfume Bottle, Violin, Candelabra,"
        " Quill, Rosary, Lace Glove, Mirror, Key, Atlas"
    ),
    signs=_list(
        "Lily, Rooster, Rose, Swan, Salamander, Bee, Lion, Ermine, Unicorn, Oak, Key, Lantern, Nightingale, Thorn"
    ),
    groups=_list("Confrerie, Order, Academy, Guild, House, Salon, Company, Chapter, Society, Court"),
)

CULTURES: Final = (NORSE, LATIN, SLAVIC, ARABIC, JAPANESE, CHINESE, CELTIC, ELVISH, FRENCH)

_CALLED: Final = tuple((culture, re.compile(rf"(?<![a-z])(?:{culture.called})(?![a-z])")) for culture in CULTURES)


def culture_for(style: str, seed: int) -> Culture:
    """The culture that a style names first; one by the seed if it names none."""
    text = normal(style[:4_096])
    found = [(match.start(), order) for order, (_, called) in enumerate(_CALLED) if (match := called.search(text))]
    return _CALLED[min(found)[1]][0] if found else CULTURES[seed % len(CULTURES)]
