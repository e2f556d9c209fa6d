"""Near-duplicate detection: whether two short texts state the same fact in nearly the same words.

A fact that a person rejected, deleted or corrected must not come back when an extractor writes it again, and two
memories that say the same should be offered for merging. Pure: no Django, no database, no model, no vectors; and only
hashed ids of a text are kept, since the text may be deleted.

A false positive loses a new fact, so whatever could be another fact is no duplicate. A synonym is therefore a miss:

* marks (numbers, negation, direction, modality) must be equal;
* a replaced word ("Osaka" for "Kyoto") outweighs everything that is shared;
* words that swapped places ("Anna pays Ben") make another fact, a phrase that moved as a whole does not.

The tables hold only closed classes of words (particles, modals, negations, irregular verbs), never what a text is
about. Vectors do not replace them: of the 274 pairs in the tests 263 are classified correctly here, without a false
positive. Cosine similarity with equal numbers and negations reaches 166 by the hashing embedder (70 false positives),
and 92 of the 136 English pairs by all-MiniLM-L6-v2 (34 false positives; here 130 and none).
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Final

from memoryhub.search.analysis import ENGLISH_STOP_WORDS, HAN, HIRAGANA, KATAKANA, analyse, fold
from memoryhub.search.bm25 import DIMENSION, inverse_document_frequency, term_id

DUPLICATE_THRESHOLD: Final = 0.92
"""Minimum likeness of duplicates; one additional word is tolerated where six or more are shared."""

REPLACEMENT_WEIGHT: Final = 10.0
"""Weight of a replaced word in rarest terms: one in 50 words is a correction, one in 20 another fact."""

MAX_CHARACTERS: Final = 10_000
"""A longer text is compared by its digest only: analysing it would take too long."""

MAX_TERMS: Final = 256
"""Those with the lowest ids, so that two texts that share terms keep the same ones."""

MAX_ORDERED_WORDS: Final = 64
"""Order is compared in sentences only; in a page every second word moves."""

MAX_ORDER_BREAKS: Final = 3
"""A phrase that moves as a whole separates three pairs of neighbours, two words that swap places four."""

MAX_ENDING_LENGTH: Final = 12
MAX_IDF: Final = inverse_document_frequency(documents_with_term=0, documents=0)


_Kind = Enum("_Kind", "TERM NUMBER MARK RELATION SELF")
"""Role of a word: topic, number, what must not differ, relation between words, speaker."""


_Piece = tuple[_Kind, str]
_Key = tuple[int, ...]
_Place = tuple[int, int]

_EDGE: Final = -1
_END: Final = (_EDGE,)
_SELF_WORD: Final = "user"

_EMPHASIS: Final = re.compile(
    r"\b(?:really|very|truly|absolutely|definitely|extremely|totally)\b"
    "|本当に|ほんとうに|ほんとに|とても|すっ?ごく|まじで|マジで|めっちゃ|めちゃくちゃ|非常に"
)
_NEGATION: Final = re.compile(r"\b(?:not|no|never|hardly|cannot)\b|n['’]?t\b|ない|なく|なかった|ませ|ずに|ぬ\b")

_INDIC: Final = "\u0900-\u0963\u0966-\u109f"
"""From Devanagari to Burmese: their vowel signs are no letters to `re`, and 「दिन」 is not 「दान」."""

_SCAN: Final = re.compile(
    rf"(?P<number>(?:(?<![\w.])-)?\d+(?:[.:/-]\d+)*)(?:st|nd|rd|th)?"
    rf"|(?P<hiragana>[{HIRAGANA}]+)|(?P<katakana>[{KATAKANA}]+)|(?P<han>[{HAN}]+)"
    rf"|(?P<word>[^\W\d_{HIRAGANA}{KATAKANA}{HAN}](?:[^\W_{HIRAGANA}{KATAKANA}{HAN}]|[{_INDIC}])*"
    rf"(?:'[^\W_{HIRAGANA}{KATAKANA}{HAN}]+)*[+#]*)|(?P<symbol>[$€£¥%<>≤≥→←])"
)
_TOKEN: Final = re.compile(rf"(?:(?<![\w.])-)?\d+(?:[.:/-]\d+)*|(?<=\w)[+#]+|(?:[^\W\d_]|[{_INDIC}])+|[$€£¥%<>=≤≥→←]")


def _canonical_forms(table: str) -> dict[str, str]:
    """Map every word of a table to the first of its entry; entries are separated by commas."""
    return {form: entry.split()[0] for entry in table.split(",") for form in entry.split()}


_MARK_WORDS: Final = _canonical_forms("""
not no nor never neither none nobody nothing nowhere dont doesnt didnt isnt arent wasnt werent wont wouldnt shouldnt
couldnt hasnt havent hadnt mustnt,
can could able, must should shall ought, may might maybe perhaps possibly, want wants wanted wanting,
plan plans planned planning intend intends intended hope hopes hoped, stop stops stopped stopping quit quits quitting
cease ceased, avoid avoids avoided avoiding refuse refuses refused, formerly previously former, only solely, until till,
from, before, after, without, against, below, above, over, under, between, off, out, down, by, more, most, few, than,
once, through, or
""")
_RELATION_WORDS: Final = _canonical_forms("""
be is are was were am been being, have has had having, he him his himself, she her hers herself, to into,
in, on, at, of, for, with, about, as, because, if, when, while
""")
_NEGATED: Final = {"can't": "can", "cannot": "can", "cant": "can", "won't": "will"}
_CONTRACTED: Final = re.compile("'(?:ve|re|ll|d|m)$")
_SELF_WORDS: Final = frozenset(("user", "users", "i", "me", "my", "mine", "myself"))
_NUMBER_WORDS: Final = _canonical_forms("""
0 zero, 1 one, 2 two, 3 three, 4 four, 5 five, 6 six, 7 seven, 8 eight, 9 nine, 10 ten, 11 eleven, 12 twelve,
13 thirteen, 14 fourteen, 15 fifteen, 16 sixteen, 17 seventeen, 18 eighteen, 19 nineteen, 20 twenty, 30 thirty,
40 forty, 50 fifty, 60 sixty, 100 hundred, 1000 thousand
""")
_MEANINGFUL_STOP_WORDS: Final = frozenset(("like", "make", "let", "go", "get", "same", "other", "own"))
_FILLER_WORDS: Final = """
quite truly absolutely definitely certainly extremely actually indeed simply basically currently apparently
personally highly totally lot lots much say says said saying tell tells told mentioned mentions mentioning stated
reported reportedly noted confirmed explained according anymore any longer clearly obviously
"""
_FILLERS: Final = frozenset(_FILLER_WORDS.split())
_IRREGULAR: Final = _canonical_forms("""
go goes going went gone, get gets getting got gotten, make made, buy bought, eat ate eaten, drink drank drunk, take
took taken, give gave given, write wrote written, speak spoke spoken, drive drove driven, ride rode ridden, run ran,
swim swam swum, sing sang sung, begin began begun, come came, become became, see saw seen, know knew known, grow grew
grown, fly flew flown, meet met, leave left, keep kept, sleep slept, feel felt, teach taught, think thought, bring
brought, catch caught, sell sold, send sent, spend spent, build built, pay paid, lose lost, win won, wear wore worn,
break broke broken, choose chose chosen, forget forgot forgotten, hold held, find found, stand stood, study studied,
wake woke woken, rise rose risen, fall fell fallen, hear heard, understand understood, lead led, child children, man
men, woman women, person people, foot feet, tooth teeth, mouse mice, wife wives
""")
_BRITISH: Final = (
    (re.compile(r"(?<=[bdilmnv])our"), "or"),
    (re.compile(r"(?<=\w{3})is(?=(?:e[ds]?|ing|ation)$)"), "iz"),
    (re.compile(r"(?<=[nea]t)re(?=s?$)"), "er"),
)

_ENDINGS: Final = """
です でしょう だ だろう ます ました ましょう ません まして て てい ている ていた てる てた てくる
てきた てくれた で でい でいる でいた でる た たら った って ってる っておらず んで んでる んだ いて
いた いで いだ し して した してる しない する される された されて られる られた られて れる れた
れて せる させる ない ないで なく なくて ず ずに ぬ たい たがる こと もの の ため ために よう
ように ような ようだ そう そうだ らしい みたい みたいだ は が に へ と も や か から まで より ね
よ な など だけ しか ほど くらい ぐらい けど けれど けれども ので のに とか でも にも までに への
との での における において について に関して によると として という いる います いました ある あり
あって あった おり おる なる なって なります なりました できる できた できて できます できました くれる
もらう さん くん ちゃん さま すごく ほんとうに ほんとに かなり たいへん じつは じっさい けっこう だいぶ
ほう
"""
_INFLECTIONS: Final = "ん う く す つ む ぐ る い き ち み り ぎ び え け め れ べ せ げ"


def _sequence_pattern(alternatives: str) -> re.Pattern[str]:
    """Return a pattern of any sequence of endings; possessive, as backtracking would try all ways to divide them."""
    return re.compile(f"(?:{'|'.join(sorted(set(alternatives.split()), key=len, reverse=True))})*+")


_ENDING: Final = _sequence_pattern(_ENDINGS)
_INFLECTION: Final = _sequence_pattern(f"{_ENDINGS} {_INFLECTIONS}")
_PARTICLE: Final = re.compile("から|まで|より|(?:には?|へ)[はも]?|で[はも]?|と[はも]?|[はがをのも]")
_WEAK_VERB: Final = re.compile(r"(?<=..)る$")
_PARTICLE_MARKS: Final = {"から": "from", "まで": "until", "より": "than"}
_ALWAYS_PARTICLES: Final = frozenset("はをのへ")
_SELF_JAPANESE: Final = frozenset(("ユーザ", "利用者", "私", "僕", "俺", "本人"))
_JAPANESE_FILLERS: Final = frozenset(
    ("本当", "非常", "大変", "実際", "実", "結構", "事", "物", "為", "様", "方", "達", "等")
)

# Reporting verbs are ignored, unless negated.
_REPORTED: Final = (
    "と(?:言|話し|述べ|語|思|伝え|答え|説明し|報告し)"
    f"(?![{HIRAGANA}]*(?:な[いかく]|ません|たい))[{HIRAGANA}]*(?=$|[^\\w])"
)
_REWRITES: Final = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("[’‘ʼ`´]", "'"),
        (f"(?<=[{HAN}])っ(?=[{HAN}])", ""),
        ("曜日", "曜"),
        (r"(?<=\d)[ヶケヵカか箇个]月", "箇月"),
        (r"(?<!\d)(\d++)時(\d++)分", r"\1:\2時"),
        (r"(?<=\d):00(?!\d|:)", ""),
        (_REPORTED, ""),
        (r"\bused to\b", "formerly"),
        (r"\bwould like\b", "want"),
        (r"\b(has|have|had) got\b", r"\1"),
        (r"\b(?:ha(?:s|ve|d)|needs?) to\b", "must"),
        (f"(?<![{HIRAGANA}])(?:わたし|ぼく)", "私"),
        ("子ども", "子供"),
    )
]
_JAPANESE_MUST: Final = (
    "(?:なけれ|なく)[ばて]は?(?:なら|なり|いけ)(?:ない|ません)|ないと(?:いけ|なら)(?:ない|ません)|べき"
)
_JAPANESE_NOT: Final = (
    f"(?<!少)(?<!危)(?<!切)な(?:い|かっ|く)|ません|無い|無し|せず"
    f"|(?<=[{HAN}][かがさたなばまらわえけげせてねべめれじみり])ず|(?<!必)(?<=[{HAN}])ず"
)
_JAPANESE_WANT: Final = (
    f"(?<!だい)(?<!つめ)(?<![{HIRAGANA}{KATAKANA}]み)(?<![っ冷重眠])(?:たい(?!へん|てい|した)"
    "|たがっ|たがる|たかった)|(?:ほし|欲し)い"
)
_JAPANESE_MARKS: Final = [
    (name, re.compile(pattern))
    for name, pattern in (
        ("must", _JAPANESE_MUST),
        ("may", "かも(?:しれ|知れ)(?:ない|ません)|可能性"),
        ("only", "しか(?=.{0,12}(?:ない|ません|なかっ))|だけ|のみ"),
        ("surely", "違いな[いく]|違いありません"),
        ("not", _JAPANESE_NOT),
        ("want", _JAPANESE_WANT),
        ("can", "でき(?!ごと)|出来(?!事)"),
        ("formerly", "以前|かつて|昔は"),
        ("plan", "予定|つもり|計画"),
        ("stop", "(?:[辞止]め|や[めん])(?=[たてるまよ]|$)"),
    )
]
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


_CONTRASTS: Final = [_relation_ids(*pair.split()) for pair in ("with for", "with about", "for about", "に を")]
_HE_AND_SHE: Final = _relation_ids("he", "she")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Data that recognise a text without storing it: a hash of the whole and ids of its words.

    `digest` is the SHA-256 of the text without case, width, space and punctuation. `terms` are ids of
    `memoryhub.search.bm25`, at most `MAX_TERMS`; `marks` those of words that must not differ. `order` holds the ids of
    terms and, above `DIMENSION`, of the words that relate them, in text order; empty for more than
    `MAX_ORDERED_WORDS`. All ids are below 2**30.
    """

    digest: bytes
    terms: frozenset[int]
    marks: frozenset[int]
    order: tuple[int, ...] = ()


def fingerprint(text: str) -> Fingerprint:
    """Return the fingerprint of a text in linear time; without terms beyond `MAX_CHARACTERS`."""
    folded, digest = fold(text), normalised_digest(text)
    if len(folded) > MAX_CHARACTERS:
        return Fingerprint(digest, frozenset(), frozenset())
    pieces = list(_analyse(folded))
    terms = {term_id(name) for kind, name in pieces if kind in (_Kind.TERM, _Kind.NUMBER)}
    # Beyond the limit, all marks and numbers are combined into one id, so that none is ignored.
    marked = sorted({name for kind, name in pieces if kind in (_Kind.MARK, _Kind.NUMBER)})
    marks = marked if len(marked) <= MAX_TERMS else [" ".join(marked)]
    above = {_Kind.RELATION: DIMENSION, _Kind.MARK: DIMENSION}
    order = [term_id(name) + above.get(kind, 0) for kind, name in pieces] if len(pieces) <= MAX_ORDERED_WORDS else []
    kept = sorted(terms)[:MAX_TERMS]
    return Fingerprint(digest, frozenset(kept), frozenset(map(term_id, marks)), tuple(order))


def normalised_digest(text: str) -> bytes:
    """Return the digest of a text's fingerprint."""
    return hashlib.sha256(_normalise(fold(text)).encode("utf-8", "surrogatepass")).digest()


def wording_digest(text: str) -> bytes:
    """Return a hash of a text without case, width, space, punctuation and words of emphasis.

    Stricter than `likeness`, for texts without a comparison: tense and synonyms count. In a negated text emphasis
    counts too, since "not really" is less than "not".
    """
    folded = fold(text)
    plain = folded if _NEGATION.search(folded) else _EMPHASIS.sub(" ", folded)
    return hashlib.sha256(_normalise(plain).encode("utf-8", "surrogatepass")).digest()


def likeness(one: Fingerprint, other: Fingerprint, idf: Mapping[int, float]) -> float:
    """Return the likeness of two texts in [0, 1]: 1 for the same words, 0 where marks or order differ.

    Otherwise it is Dice's coefficient of the terms, weighted by idf; a replaced term counts `REPLACEMENT_WEIGHT`
    times the rarest, a term without idf as the rarest.
    """
    if one.digest == other.digest:
        return 1.0
    if one.marks != other.marks or _is_rearranged(one.order, other.order):
        return 0.0
    rarest = max(idf.values(), default=MAX_IDF)
    shared = 2 * _weight(one.terms & other.terms, idf, rarest)
    replaced = REPLACEMENT_WEIGHT * rarest * min(len(one.terms - other.terms), len(other.terms - one.terms))
    apart = _weight(one.terms ^ other.terms, idf, rarest) + replaced
    return shared / (shared + apart) if shared else 0.0


def _weight(terms: Iterable[int], idf: Mapping[int, float], rarest: float) -> float:
    return sum(idf.get(term, rarest) for term in terms)


def _normalise(folded: str) -> str:
    """Return the text without space and punctuation, but 1.5 is not 15, 3 5 not 35, C# not C and $ not €."""
    kept: list[str] = []
    end = 0
    for match in _TOKEN.finditer(folded):
        kept.extend(filter(_is_emoji, folded[end : match.start()]))
        kept.append(f" {match[0]} " if match[0][-1].isdecimal() else match[0])
        end = match.end()
    kept.extend(filter(_is_emoji, folded[end:]))
    return "".join(kept)


def _is_emoji(sign: str) -> bool:
    return unicodedata.category(sign) == "So"


def _numeral(kanji: str) -> int:
    total = digits = 0
    for sign in kanji:
        if sign in _POWERS:
            total, digits = total + max(1, digits) * _POWERS[sign], 0
        else:
            digits = 10 * digits + _DIGITS[sign]
    return total + digits


def _analyse(text: str) -> Iterator[_Piece]:
    """Yield the words of a text with their roles, in order; the marks of Japanese come first.

    These are parts of endings and removed, so that the rest is a plain inflection; 「しなければならない」 is a duty,
    no negation.
    """
    text = _NUMERAL.sub(lambda match: str(_numeral(match[0])), text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    for name, pattern in _JAPANESE_MARKS:
        text, count = pattern.subn("", text)
        if count:
            yield _Kind.MARK, name
    kind = ""
    for match in _SCAN.finditer(text):
        is_attached = match.start() > 0 and text[match.start() - 1].isalnum()
        before, kind = kind if is_attached else "", match.lastgroup or ""
        run = match[kind]
        if kind == "number":
            yield _Kind.NUMBER, _normalise_number(run)
        elif kind == "symbol":
            yield _Kind.MARK, run
        elif kind == "word":
            yield from _analyse_english(run)
        elif kind == "hiragana":
            yield from _analyse_hiragana(run, before)
        else:
            yield from _expression(run, before)


def _normalise_number(run: str) -> str:
    """Normalise 05 to 5 and 2024-05-03 to 2024/5/3; 1.05 is not 1.5."""
    parts = re.split("[.:/-]", run.removeprefix("-"))
    if len(parts) == 2 and "." in run:
        return run
    sign = "-" if run.startswith("-") else ""
    return sign + ":".join(part.lstrip("0") or "0" for part in parts)


def _analyse_english(word: str) -> Iterator[_Piece]:
    """Yield the pieces of an English word; "can't" and "Anna's" are two each."""
    if word.endswith("n't") or word in _NEGATED:
        yield _Kind.MARK, "not"
        word = _NEGATED.get(word) or word[:-3]
    base = _CONTRACTED.sub("", word.removesuffix("'s"))
    if base in _SELF_WORDS:
        yield _Kind.SELF, _SELF_WORD
    elif base in _MARK_WORDS:
        yield _Kind.MARK, _MARK_WORDS[base]
    elif base in _RELATION_WORDS:
        yield _Kind.RELATION, _RELATION_WORDS[base]
    elif base in _NUMBER_WORDS:
        yield _Kind.NUMBER, _NUMBER_WORDS[base]
    elif term := _stem(base):
        yield _Kind.TERM, term
    if word.endswith("'s"):
        yield _Kind.RELATION, "'s"


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """Return the search term of a word after unifying British spelling and irregular forms; "" for a filler."""
    base = _IRREGULAR.get(word, word)
    if base in _MEANINGFUL_STOP_WORDS:
        return base
    if base in _FILLERS or base in ENGLISH_STOP_WORDS:
        return ""
    for pattern, replacement in _BRITISH:
        base = pattern.sub(replacement, base)
    return next(iter(analyse(base)), "") if base.isalpha() else base


def _analyse_hiragana(run: str, before: str) -> Iterator[_Piece]:
    """Yield the words of a run without inflection, and the particles; 「を」 is a particle anywhere."""
    first, *others = run.split("を")
    yield from _analyse_suffix(first, before) if before else _analyse_kana(first)
    for part in others:
        yield _Kind.RELATION, "を"
        yield from _analyse_kana(part)


def _analyse_suffix(run: str, before: str) -> Iterator[_Piece]:
    """Yield what follows a word: its inflection, of up to two sounds after kanji, or a particle, then words."""
    pattern = _INFLECTION if before == "han" else _ENDING
    sounds = 2 if before == "han" and run[:1] not in _ALWAYS_PARTICLES else 0
    if match := _PARTICLE.match(run):
        yield from _particle(match[0])
    if not any(pattern.fullmatch(run, start) for start in range(sounds + 1)):
        yield from _analyse_kana(run[match.end() :] if match else run)


def _particle(particle: str) -> Iterator[_Piece]:
    if particle in _PARTICLE_MARKS:
        yield _Kind.MARK, _PARTICLE_MARKS[particle]
    elif particle[0] != "と":  # 「AとB」 equals 「BとA」, so the order around と is ignored
        yield _Kind.RELATION, particle[0].replace("へ", "に")


def _analyse_kana(part: str) -> Iterator[_Piece]:
    """Yield a part without its final particles and endings, and the first of these if it is a relation."""
    if _ENDING.fullmatch(part):
        return
    starts = range(max(2, len(part) - MAX_ENDING_LENGTH), len(part))
    end = next((start for start in starts if _ENDING.fullmatch(part, start)), len(part))
    if end > 1:
        yield _Kind.TERM, _WEAK_VERB.sub("", part[:end])
    if match := _PARTICLE.match(part, end):
        yield from _particle(match[0])


def _expression(run: str, before: str) -> Iterator[_Piece]:
    if before == "number" and (match := _COUNTER.match(run)):
        yield _Kind.TERM, match[0]
        run = run[match.end() :]
    position = 0
    while match := _TIME.match(run, position):
        yield _Kind.TERM, match[0]
        position = match.end()
    run = run[position:]
    if run in _SELF_JAPANESE:
        yield _Kind.SELF, _SELF_WORD
    elif run and run not in _JAPANESE_FILLERS:
        yield _Kind.TERM, run if len(run) == 1 else f"#{run}"


def _is_rearranged(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether words swapped places, or one has an opposite relation."""
    places, other_places = _places(one), _places(other)
    moved = [term for term, place in places.items() if other_places.get(term, place) != place]
    changes = [set(sides) for term in moved for sides in zip(places[term], other_places[term], strict=True)]
    return (
        any(change in _CONTRASTS for change in changes)
        or set(one) ^ set(other) >= _HE_AND_SHE
        or _count_order_breaks([term for term in places if term in other_places], list(other_places)) > MAX_ORDER_BREAKS
        or any(_is_exchanged(places, other_places, pair) for pair in combinations(moved, 2))
    )


def _count_order_breaks(one: list[_Key], other: list[_Key]) -> int:
    common = sorted(set(one), key=other.index)
    neighbours = set(pairwise((_END, *common, _END)))
    return sum(pair not in neighbours for pair in pairwise((_END, *one, _END)))


def _places(order: tuple[int, ...]) -> dict[_Key, _Place]:
    """Return what precedes and follows each word; repeated words are distinguished by what precedes them."""
    counts = Counter(order)
    padded = zip((_EDGE, *order), order, (*order[1:], _EDGE), strict=False)
    return {
        (term,) if counts[term] == 1 else (before, term): (before, after)
        for before, term, after in padded
        if term < DIMENSION
    }


def _is_exchanged(places: Mapping[_Key, _Place], others: Mapping[_Key, _Place], pair: tuple[_Key, _Key]) -> bool:
    """Return whether two words swapped places: both neighbours, or one that is the same relation."""
    sides = list(zip(places[pair[0]], places[pair[1]], others[pair[0]], others[pair[1]], strict=True))
    swapped = [(one, two) for one, two, *after in sides if one != two and [two, one] == after]
    return len(swapped) == len(sides) or any(min(side) >= DIMENSION for side in swapped)
