"""Say when two short texts state the same fact in nearly the same words.

A fact that a person rejected, deleted or put right must not come back because an extractor writes it
once more, and two memories that say one thing should be offered for merging. Pure: no Django, no
database, no model, no vectors; and of a text only hashed ids are kept, since the text may be deleted.

To mistake a new fact for a rejected one loses it, so whatever could be another fact is not near:

* marks (numbers, negation, direction, modality) must be equal;
* a word in another's stead ("Osaka" for "Kyoto") tells more than all that is shared;
* words that changed places ("Anna pays Ben") make another fact, a phrase that moved as a whole does not.

A synonym is therefore a miss. Only closed classes of words have tables here (particles, modals,
negations, reporting verbs, irregular verbs); what a text is about is never in one.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Final

from memoryhub.search.analysis import ENGLISH_STOP_WORDS, analyse, fold
from memoryhub.search.bm25 import DIMENSION, inverse_document_frequency, term_id

NEAR: Final = 0.92
"""The likeness from which two texts say the same: a word more is borne where six or more are shared."""

REPLACED: Final = 10.0
"""How many of the rarest terms one replaced word outweighs: one in 50 words is a correction, one in 20 a fact."""

MAX_CHARACTERS: Final = 10_000
"""A longer text is recognised word for word only: it is no memory, and to read it would take too long."""

MAX_TERMS: Final = 256
"""Those with the lowest ids, so that two texts that share terms keep the same ones."""

MAX_ORDER: Final = 64
"""Order is looked at in sentences; in a page every second word has changed places."""

MAX_BREAKS: Final = 3
"""A phrase that moves as a whole tears three neighbours apart, two words that change places four."""

MAX_ENDING: Final = 12
"""How many sounds of particles and endings are looked for behind a word in kana."""

RAREST: Final = inverse_document_frequency(documents_with_term=0, documents=0)
"""What a term weighs where nothing is known of any."""


class _Kind(Enum):
    """What a word counts as: what the text is about, what must not differ, what relates words, who speaks."""

    TERM = auto()
    NUMBER = auto()
    MARK = auto()
    RELATION = auto()
    SELF = auto()


_Piece = tuple[_Kind, str]
_Key = tuple[int, ...]
_Place = tuple[int, int]

_EDGE: Final = -1
_END: Final = (_EDGE,)
_SELF_WORD: Final = "user"

_HIRAGANA: Final = "\u3041-\u3096\u309d\u309e"
_KATAKANA: Final = "\u30a1-\u30fa\u30fc-\u30fe\u31f0-\u31ff"
_HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_INDIC: Final = "\u0900-\u0963\u0966-\u109f"
"""From Devanagari to Burmese; their vowel signs are no letters to `re`, and 「दिन」 is not 「दान」."""

_SCAN: Final = re.compile(
    rf"(?P<number>(?:(?<![\w.])-)?\d+(?:[.:/-]\d+)*)(?:st|nd|rd|th)?"
    rf"|(?P<hiragana>[{_HIRAGANA}]+)|(?P<katakana>[{_KATAKANA}]+)|(?P<han>[{_HAN}]+)"
    rf"|(?P<word>[^\W\d_{_HIRAGANA}{_KATAKANA}{_HAN}](?:[^\W_{_HIRAGANA}{_KATAKANA}{_HAN}]|[{_INDIC}])*"
    rf"(?:'[^\W_{_HIRAGANA}{_KATAKANA}{_HAN}]+)*[+#]*)|(?P<symbol>[$€£¥%<>≤≥→←])"
)
_WRITTEN: Final = re.compile(
    rf"(?:(?<![\w.])-)?\d+(?:[.:/-]\d+)*|(?<=\w)[+#]+|(?:[^\W\d_]|[{_INDIC}])+|[$€£¥%<>=≤≥→←]"
)


def _by_form(table: Mapping[str, str]) -> dict[str, str]:
    """Return a table of names and the words that stand for each as one from word to name."""
    return {form: name for name, forms in table.items() for form in forms.split()}


_MARK_WORDS: Final = _by_form(
    {
        "not": """not no nor never neither none nobody nothing nowhere dont doesnt didnt isnt arent wasnt werent
            wont wouldnt shouldnt couldnt hasnt havent hadnt mustnt""",
        "can": "can could able",
        "must": "must should shall ought",
        "may": "may might maybe perhaps possibly",
        "want": "want wants wanted wanting",
        "plan": "plan plans planned planning intend intends intended hope hopes hoped",
        "stop": "stop stops stopped stopping quit quits quitting cease ceased",
        "avoid": "avoid avoids avoided avoiding refuse refuses refused",
        "formerly": "formerly previously former",
        "only": "only solely",
        "until": "until till",
    }
    | {
        word: word
        for word in ("from", "before", "after", "without", "against", "below", "above", "over", "under")
    }
    | {word: word for word in ("between", "off", "out", "down", "by", "more", "most", "few", "than", "once")}
    | {word: word for word in ("through", "or")}
)
_RELATION_WORDS: Final = _by_form(
    {
        "be": "is are was were am be been being",
        "have": "has have had having",
        "he": "he him his himself",
        "she": "she her hers herself",
        "to": "into to",
    }
    | {
        word: word
        for word in ("in", "on", "at", "of", "for", "with", "about", "as", "because", "if", "when", "while")
    }
)
_NEGATED: Final = {"can't": "can", "cannot": "can", "cant": "can", "won't": "will"}
_CONTRACTED: Final = re.compile("'(?:ve|re|ll|d|m)$")
_SELF_WORDS: Final = frozenset(("user", "users", "i", "me", "my", "mine", "myself"))
_NUMBER_WORDS: Final = _by_form(
    {
        "0": "zero", "1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven",
        "8": "eight", "9": "nine", "10": "ten", "11": "eleven", "12": "twelve", "13": "thirteen",
        "14": "fourteen", "15": "fifteen", "16": "sixteen", "17": "seventeen", "18": "eighteen",
        "19": "nineteen", "20": "twenty", "30": "thirty", "40": "forty", "50": "fifty", "60": "sixty",
        "100": "hundred", "1000": "thousand",
    }
)  # fmt: skip
_MEANINGFUL_STOP_WORDS: Final = frozenset(("like", "make", "let", "go", "get", "same", "other", "own"))
_FILLER_WORDS: Final = """
quite truly absolutely definitely certainly extremely actually indeed simply basically currently apparently
personally highly totally lot lots much say says said saying tell tells told mentioned mentions mentioning stated
reported reportedly noted confirmed explained according anymore any longer clearly obviously
"""
_FILLERS: Final = frozenset(_FILLER_WORDS.split())
_IRREGULAR: Final = _by_form(
    {
        "go": "goes going went gone", "get": "gets getting got gotten", "make": "made", "buy": "bought",
        "eat": "ate eaten", "drink": "drank drunk", "take": "took taken", "give": "gave given",
        "write": "wrote written", "speak": "spoke spoken", "drive": "drove driven", "ride": "rode ridden",
        "run": "ran", "swim": "swam swum", "sing": "sang sung", "begin": "began begun", "come": "came",
        "become": "became", "see": "saw seen", "know": "knew known", "grow": "grew grown",
        "fly": "flew flown", "meet": "met", "leave": "left", "keep": "kept", "sleep": "slept",
        "feel": "felt", "teach": "taught", "think": "thought", "bring": "brought", "catch": "caught",
        "sell": "sold", "send": "sent", "spend": "spent", "build": "built", "pay": "paid", "lose": "lost",
        "win": "won", "wear": "wore worn", "break": "broke broken", "choose": "chose chosen",
        "forget": "forgot forgotten", "hold": "held", "find": "found", "stand": "stood", "study": "studied",
        "wake": "woke woken", "rise": "rose risen", "fall": "fell fallen", "hear": "heard",
        "understand": "understood", "lead": "led", "child": "children", "man": "men", "woman": "women",
        "person": "people", "foot": "feet", "tooth": "teeth", "mouse": "mice", "wife": "wives",
    }
)  # fmt: skip
_BRITISH: Final = (
    (re.compile(r"(?<=[bdilmnv])our"), "or"),
    (re.compile(r"(?<=\w{3})is(?=(?:e[ds]?|ing|ation)$)"), "iz"),
    (re.compile(r"(?<=[nea]t)re(?=s?$)"), "er"),
)

_ENDINGS: Final = """
です でした でしょう だ だった だろう である であり であった ます ました ましょう ません
ませんでした まして て てい ている ていた ています ていました てる てた てます ております
てある てあります てくる てきた てくれる てくれた で でい でいる でいた でいます でいました
でる でます でおります た たら った って っている っていた っています っていました ってる
っておらず んで んでいる んでいた んでいます んでいました んでる んだ いて いた いで いだ し
して した している していた しています していました してる します しました しない しなかった
しません する される された されて されている されています られる られた られて れる れた
れて せる させる ない なかった ないで なく なくて ず ずに ぬ たい たがる たいです たかった
こと もの の ため ために よう ように ような ようだ そう そうだ らしい みたい みたいだ
とのこと は が を に へ と も や か から まで より ね よ な など だけ しか ほど
くらい ぐらい けど けれど けれども ので のに とか には では とは でも にも へは からは
までに への との での における において について に関して によると として という いる います
いました ある あり あって あった あります おり おる なる なった なって なります なりました
できる できた できて できます できました くれる もらう さん くん ちゃん さま とても すごく
ほんとうに ほんとに かなり たいへん じつは じっさい けっこう だいぶ ほう
"""
_INFLECTIONS: Final = "ん う く す つ ぬ ぶ む ぐ る い き ち み り ぎ び え け め れ べ せ げ ね て"


def _repeated(alternatives: str) -> re.Pattern[str]:
    """Return a pattern of any of the alternatives, the longest first, as often as they follow one another.

    Possessive, because endings can be cut in many ways and backtracking would try all of them.
    """
    return re.compile(f"(?:{'|'.join(sorted(set(alternatives.split()), key=len, reverse=True))})*+")


_ENDING: Final = _repeated(_ENDINGS)
_INFLECTION: Final = _repeated(f"{_ENDINGS} {_INFLECTIONS}")
_PARTICLE: Final = re.compile("から|まで|より|(?:には?|へ)[はも]?|で[はも]?|と[はも]?|[はがをのも]")
_WEAK_VERB: Final = re.compile(r"(?<=..)る$")
_PARTICLE_NAMES: Final = {"へ": "に"}
_PARTICLE_MARKS: Final = {"から": "from", "まで": "until", "より": "than"}
_ONLY_PARTICLES: Final = frozenset("はをのへ")
_SELF_JAPANESE: Final = frozenset(("ユーザ", "利用者", "私", "僕", "俺", "本人"))
_JAPANESE_FILLERS: Final = frozenset(
    ("本当", "非常", "大変", "実際", "実", "結構", "事", "物", "為", "様", "方", "達", "等")
)

_REWRITES: Final = (
    (re.compile("[’‘ʼ`´]"), "'"),
    (re.compile(f"(?<=[{_HAN}])っ(?=[{_HAN}])"), ""),
    (re.compile("曜日"), "曜"),
    (re.compile(r"(?<=\d)[ヶケヵカか箇个]月"), "箇月"),
    (re.compile(r"(\d+)時(\d+)分"), r"\1:\2時"),
    (re.compile(r"(?<=\d):00(?!\d|:)"), ""),
    # said by whom is no matter, but "did not say" is
    (
        re.compile(
            f"と(?:言|話し|述べ|語|思|伝え|答え|説明し|報告し)(?![{_HIRAGANA}]*(?:な[いかく]|ません|たい))[{_HIRAGANA}]*(?=$|[^\\w])"
        ),
        "",
    ),
    (re.compile(r"\bused to\b"), "formerly"),
    (re.compile(r"\bwould like\b"), "want"),
    (re.compile(r"\b(has|have|had) got\b"), r"\1"),
    (re.compile(r"\b(?:ha(?:s|ve|d)|needs?) to\b"), "must"),
    (re.compile(f"(?<![{_HIRAGANA}])(?:わたし|ぼく)"), "私"),
    (re.compile("子ども"), "子供"),
    (re.compile("友だち"), "友達"),
    (re.compile("おいし"), "美味し"),
    (re.compile(r"\bno longer\b"), "not"),
)
_JAPANESE_MARKS: Final = (
    (
        "must",
        re.compile(
            "(?:なけれ|なく)[ばて]は?(?:なら|なり|いけ)(?:ない|ません)|ないと(?:いけ|なら)(?:ない|ません)|べき"
        ),
    ),
    ("may", re.compile("かも(?:しれ|知れ)(?:ない|ません)|可能性")),
    ("only", re.compile("しか(?=.{0,12}(?:ない|ません|なかっ))|だけ|のみ")),
    ("surely", re.compile("違いな[いく]|違いありません")),
    (
        "not",
        re.compile(
            f"(?<!少)(?<!危)(?<!切)な(?:い|かっ|く)|ません|無い|無し|せず"
            f"|(?<=[{_HAN}][かがさたなばまらわえけげせてねべめれじみり])ず|(?<!必)(?<=[{_HAN}])ず"
        ),
    ),
    (
        "want",
        re.compile(
            f"(?<!だい)(?<!つめ)(?<![{_HIRAGANA}{_KATAKANA}]み)(?<![っ冷重眠])(?:たい(?!へん|てい|した)|たがっ|たがる|たかった)|(?:ほし|欲し)い"
        ),
    ),
    ("can", re.compile("でき(?!ごと)|出来(?!事)")),
    ("formerly", re.compile("以前|かつて|昔は")),
    ("plan", re.compile("予定|つもり|計画")),
    ("stop", re.compile("(?:[辞止]め|や[めん])(?=[たてるまよ]|$)")),
)
_DIGITS: Final = {digit: value for value, digit in enumerate("〇一二三四五六七八九")}
_POWERS: Final = {"十": 10, "百": 100, "千": 1000}
_COUNTERS: Final = "年月日時分秒人個本匹枚回歳才番冊台杯階度円週泊名件点通頭羽箇万億"
_NUMERAL: Final = re.compile(f"[〇一二三四五六七八九十百千]{{1,12}}(?=[{_COUNTERS}])")
_COUNTER: Final = re.compile(f"箇月|[年日週分秒時箇]間|[{_COUNTERS}]")
_TIME: Final = re.compile(
    "毎[日朝晩週月年]|昨[日夜年晩]|今[日朝夜週月年晩]|明日|来[週月年]|先[週月日]|去年|最近|現在|将来"
    "|普段|週末|[月火水木金土日]曜|午前|午後"
)


def _relation_ids(*names: str) -> set[int]:
    return {DIMENSION + term_id(name) for name in names}


_CONTRASTS: Final = [
    _relation_ids(*pair.split()) for pair in ("with for", "with about", "for about", "に を")
]
_HE_AND_SHE: Final = _relation_ids("he", "she")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What of a text is kept to recognise it again, without the text: a hash of all of it and ids of its words.

    `digest` is the SHA-256 of the text without case, width, space and punctuation. `terms` are ids of
    `memoryhub.search.bm25` for what it is about, at most `MAX_TERMS`; `marks` those of what must not
    differ. `order` holds the ids of terms and, above `DIMENSION`, of the words that relate them, as they
    stand in the text; it is empty beyond `MAX_ORDER`. All ids are below 2**30.
    """

    digest: bytes
    terms: frozenset[int]
    marks: frozenset[int]
    order: tuple[int, ...] = ()


def fingerprint(text: str) -> Fingerprint:
    """Return what recognises the text again; linear in the text, and without terms beyond `MAX_CHARACTERS`."""
    folded = fold(text)
    digest = hashlib.sha256(_written(folded).encode("utf-8", "surrogatepass")).digest()
    if len(folded) > MAX_CHARACTERS:
        return Fingerprint(digest, frozenset(), frozenset())
    pieces = list(_pieces(_rewritten(folded)))
    terms = {term_id(name) for kind, name in pieces if kind in (_Kind.TERM, _Kind.NUMBER)}
    return Fingerprint(digest, frozenset(sorted(terms)[:MAX_TERMS]), _marks(pieces), _order(pieces))


def likeness(one: Fingerprint, other: Fingerprint, idf: Mapping[int, float]) -> float:
    """Return in [0, 1] how far two texts say the same: 1 for the same words, 0 where marks or order tell apart.

    Otherwise Dice's coefficient of the terms, weighted by idf, in which a term in another's stead counts
    `REPLACED` times the rarest. Terms that `idf` misses are taken for as rare as its rarest.
    """
    if one.digest == other.digest:
        return 1.0
    if one.marks != other.marks or _is_rearranged(one.order, other.order):
        return 0.0
    rarest = max(idf.values(), default=RAREST)
    shared = 2 * _weight(one.terms & other.terms, idf, rarest)
    replaced = REPLACED * rarest * min(len(one.terms - other.terms), len(other.terms - one.terms))
    apart = _weight(one.terms ^ other.terms, idf, rarest) + replaced
    return shared / (shared + apart) if shared else 0.0


def _weight(terms: Iterable[int], idf: Mapping[int, float], rarest: float) -> float:
    return sum(idf.get(term, rarest) for term in terms)


def _written(folded: str) -> str:
    """Return the text without space and punctuation, but 1.5 is not 15, 3 5 not 35, C# not C and $ not €."""
    kept: list[str] = []
    end = 0
    for match in _WRITTEN.finditer(folded):
        kept.extend(filter(_is_picture, folded[end : match.start()]))
        kept.append(f" {match[0]} " if match[0][-1].isdecimal() else match[0])
        end = match.end()
    kept.extend(filter(_is_picture, folded[end:]))
    return "".join(kept)


def _is_picture(sign: str) -> bool:
    """Say whether it is an emoji or the like, which may be all that a text says."""
    return unicodedata.category(sign) == "So"


def _rewritten(folded: str) -> str:
    """Return the text with what is written in several ways (numerals, times, reported speech) written in one."""
    text = _NUMERAL.sub(lambda match: str(_numeral(match[0])), folded)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


def _numeral(kanji: str) -> int:
    """Return what 二十三 or 二〇二四 stands for."""
    total = digits = 0
    for sign in kanji:
        if sign in _POWERS:
            total, digits = total + max(1, digits) * _POWERS[sign], 0
        else:
            digits = 10 * digits + _DIGITS[sign]
    return total + digits


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the words of the text with what they count as, in order; the marks of Japanese come first.

    They stand in endings and are taken out of them, so that the rest is a word's plain inflection;
    「しなければならない」 is a duty and not a negation.
    """
    for name, pattern in _JAPANESE_MARKS:
        text, count = pattern.subn("", text)
        if count:
            yield _Kind.MARK, name
    before = ""
    for match in _SCAN.finditer(text):
        kind, run = match.lastgroup or "", match[match.lastgroup or 0]
        is_attached = match.start() > 0 and text[match.start() - 1].isalnum()
        yield from _pieces_of(kind, run, before if is_attached else "")
        before = kind


def _pieces_of(kind: str, run: str, before: str) -> Iterator[_Piece]:
    """Yield the pieces of one run of a script; `before` is the kind of what it is attached to, or empty."""
    if kind == "number":
        yield _Kind.NUMBER, _number(run)
    elif kind == "symbol":
        yield _Kind.MARK, run
    elif kind == "word":
        yield from _word(run)
    elif kind == "hiragana":
        yield from _hiragana(run, before)
    else:
        yield from _expression(run, before)


def _number(run: str) -> str:
    """Return one form for 05 and 5, 2024-05-03 and 2024/5/3; but 1.05 is not 1.5."""
    parts = re.split("[.:/-]", run.removeprefix("-"))
    if len(parts) == 2 and "." in run:
        return run
    sign = "-" if run.startswith("-") else ""
    return sign + ":".join(part.lstrip("0") or "0" for part in parts)


def _word(word: str) -> Iterator[_Piece]:
    """Yield what an English word counts as; "can't" is two pieces, "Anna's" too."""
    if word.endswith("n't") or word in _NEGATED:
        yield _Kind.MARK, "not"
        word = _NEGATED.get(word) or word[:-3]
    yield from _plain_word(_CONTRACTED.sub("", word.removesuffix("'s")))
    if word.endswith("'s"):
        yield _Kind.RELATION, "'s"


def _plain_word(word: str) -> Iterator[_Piece]:
    if word in _SELF_WORDS:
        yield _Kind.SELF, _SELF_WORD
    elif word in _MARK_WORDS:
        yield _Kind.MARK, _MARK_WORDS[word]
    elif word in _RELATION_WORDS:
        yield _Kind.RELATION, _RELATION_WORDS[word]
    elif word in _NUMBER_WORDS:
        yield _Kind.NUMBER, _NUMBER_WORDS[word]
    elif term := _stem(word):
        yield _Kind.TERM, term


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """Return the term that search has for the word, British spelling and irregular forms made one; or nothing."""
    base = _IRREGULAR.get(word, word)
    if base in _MEANINGFUL_STOP_WORDS:
        return base
    if base in _FILLERS or base in ENGLISH_STOP_WORDS:
        return ""
    for pattern, replacement in _BRITISH:
        base = pattern.sub(replacement, base)
    return next(iter(analyse(base)), "") if base.isalpha() else base


def _hiragana(run: str, before: str) -> Iterator[_Piece]:
    """Yield the words of a run, without inflection, and the particles; 「を」 is a particle anywhere."""
    first, *others = run.split("を")
    yield from _attached(first, before) if before else _kana_word(first)
    for part in others:
        yield _Kind.RELATION, "を"
        yield from _kana_word(part)


def _attached(run: str, before: str) -> Iterator[_Piece]:
    """Yield what follows a word: its inflection, of up to two sounds after kanji, or a particle, then words."""
    pattern = _INFLECTION if before == "han" else _ENDING
    sounds = 2 if before == "han" and run[:1] not in _ONLY_PARTICLES else 0
    match = _PARTICLE.match(run)
    if match:
        yield from _particle(match[0])
    if not any(pattern.fullmatch(run, start) for start in range(sounds + 1)):
        yield from _kana_word(run[match.end() :] if match else run)


def _particle(particle: str) -> Iterator[_Piece]:
    if particle in _PARTICLE_MARKS:
        yield _Kind.MARK, _PARTICLE_MARKS[particle]
    elif particle[0] != "と":  # 「AとB」 is 「BとA」, so that と has no place in the order
        yield _Kind.RELATION, _PARTICLE_NAMES.get(particle[0], particle[0])


def _kana_word(part: str) -> Iterator[_Piece]:
    """Yield the part without the particles and endings at its end, and the first of these if it relates."""
    if _ENDING.fullmatch(part):
        return
    starts = range(max(2, len(part) - MAX_ENDING), len(part))
    end = next((start for start in starts if _ENDING.fullmatch(part, start)), len(part))
    if end > 1:
        yield _Kind.TERM, _WEAK_VERB.sub("", part[:end])
    if match := _PARTICLE.match(part, end):
        yield from _particle(match[0])


def _expression(run: str, before: str) -> Iterator[_Piece]:
    """Yield a run of kanji or katakana, its counter and its adverbs of time apart from the rest."""
    if before == "number" and (match := _COUNTER.match(run)):
        yield _Kind.TERM, match[0]
        run = run[match.end() :]
    while match := _TIME.match(run):
        yield _Kind.TERM, match[0]
        run = run[match.end() :]
    if run in _SELF_JAPANESE:
        yield _Kind.SELF, _SELF_WORD
    elif run and run not in _JAPANESE_FILLERS:
        yield _Kind.TERM, run if len(run) == 1 else f"#{run}"


def _marks(pieces: list[_Piece]) -> frozenset[int]:
    """Return the ids of what must not differ; beyond `MAX_TERMS`, one id for all of it, since none may be left out."""
    names = sorted({name for kind, name in pieces if kind in (_Kind.MARK, _Kind.NUMBER)})
    return frozenset(map(term_id, names if len(names) <= MAX_TERMS else [" ".join(names)]))


def _order(pieces: list[_Piece]) -> tuple[int, ...]:
    """Return the ids of all pieces as they stand, those of relations and marks above `DIMENSION`."""
    related = (_Kind.RELATION, _Kind.MARK)
    if len(pieces) > MAX_ORDER:
        return ()
    return tuple(term_id(name) + (DIMENSION if kind in related else 0) for kind, name in pieces)


def _is_rearranged(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Say whether words have changed places, or one has come into an opposite relation."""
    places, other_places = _places(one), _places(other)
    moved = [term for term, place in places.items() if other_places.get(term, place) != place]
    changes = [set(sides) for term in moved for sides in zip(places[term], other_places[term], strict=True)]
    return (
        any(change in _CONTRASTS for change in changes)
        or set(one) ^ set(other) >= _HE_AND_SHE
        or _breaks([term for term in places if term in other_places], list(other_places)) > MAX_BREAKS
        or any(_is_exchanged(places, other_places, pair) for pair in combinations(moved, 2))
    )


def _breaks(one: list[_Key], other: list[_Key]) -> int:
    """Return how many neighbours in one list, its ends included, are not neighbours in the other's common part."""
    common = sorted(set(one), key=other.index)
    neighbours = set(pairwise((_END, *common, _END)))
    return sum(pair not in neighbours for pair in pairwise((_END, *one, _END)))


def _places(order: tuple[int, ...]) -> dict[_Key, _Place]:
    """Return what stands before and after each word; one that occurs again is told by what is before it."""
    counts = Counter(order)
    padded = zip((_EDGE, *order), order, (*order[1:], _EDGE), strict=False)
    return {
        (term,) if counts[term] == 1 else (before, term): (before, after)
        for before, term, after in padded
        if term < DIMENSION
    }


def _is_exchanged(
    places: Mapping[_Key, _Place], others: Mapping[_Key, _Place], pair: tuple[_Key, _Key]
) -> bool:
    """Say whether two words stand each where the other stood: wholly, or before or after the same relations."""
    sides = list(zip(places[pair[0]], places[pair[1]], others[pair[0]], others[pair[1]], strict=True))
    swapped = [(one, two) for one, two, *after in sides if one != two and [two, one] == after]
    return len(swapped) == len(sides) or any(min(side) >= DIMENSION for side in swapped)
