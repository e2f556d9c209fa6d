"""Read a message: what it is about, and how likely it is to need what is remembered of a person. Pure.

Pasted code, courtesies and what a request always says are no terms of a message. Stored texts keep all of that:
whoever remembers a stack trace finds it by its words.

"Who discovered penicillin?" shares its rarest word with the memory of an allergy and needs none. The words that are
shared do not tell the two apart, but those that nobody searches for do: people who speak of their own affairs say
"my", "we", "again" or "tomorrow", 「っけ」 or 「うちの」; questions about the world and work on a text that is given
have forms of their own. English and Japanese; a message in another script is taken for a personal one.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice, pairwise
from typing import Final, Self

from memoryhub.search.analysis import HAN, KATAKANA, analyse, is_unspaced

_COURTESIES: Final = """
actual anyway ask bit bye cheer cool dear even fine forget good great guess hello help hey hi hope know let lot love
morn night nice ok okay pleas question quick realli remember remind sorri suppos sure tell thank thanks thing think
thx today way welcom well
"""
COURTESIES: Final = frozenset(_COURTESIES.split())
"""Stems that say that somebody asks, not for what."""

_JAPANESE_COURTESIES: Final = re.compile(
    "おはよう(?:ございます)?|こんにち[はわ]|こんばん[はわ]|ありがとう(?:ござい(?:ます|ました))?"
    "|よろしく(?:お願い(?:します|いたします)?)?|お願い(?:します|いたします)?|お疲れ(?:様|さま)(?:です|でした)?"
    "|すみません|ごめん(?:なさい|ね)?|教えて(?:ください|くれる|ほしい)?|覚えて(?:る|ます)?"
    r"|で?した?っけ|だった?っけ|でしょうか|ください|思い?(?:ます|って)|けれど|かな(?=[、。！？!?\s]|$)|ちょっと|今日は|元気"
)

_FENCED: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE_START: Final = re.compile(
    r"\s*(?:at |File \"|Traceback|def |class |import |from \S+ import|return\b|const |let |var |function |#include"
    r"|SELECT |INSERT |UPDATE |FROM |WHERE |</?\w|[{}\[\]]|\d{4}-\d\d-\d\d[T ]\d\d:|\$ |//|INFO|ERROR|WARN"
    r"|DEBUG|\w*(?:Error|Exception)\b|/\*|\+\+\+|---|@@|\"\w+\"\s*:)"
)
_SYMBOL: Final = re.compile(r"[{}()\[\]<>=;|/\\_$#@*&^%~`\"+:\d]")
SYMBOL_SHARE: Final = 0.18
"""Prose has 2 to 5 % of brackets, operators and digits, code and logs 15 to 40 %."""
CSV_COMMAS: Final = 3

EARLIER_TURNS: Final = 4
USER_SHARE: Final = 1.0
ASSISTANT_SHARE: Final = 0.5
FADING: Final = 0.7
"""What a turn's terms keep where the message itself says nothing: by role, and less with each exchange before."""

MAX_CHARACTERS: Final = 20_000
"""Of a longer message the beginning and the end count, where people say what they want."""


class Wording(IntEnum):
    """Kinds of messages, the likelier to need a memory the higher."""

    GENERAL = 0
    """It asks about the world, wants work on a text that it brings along, or is a courtesy."""
    OPEN = 1
    """Nothing in it tells: 「防災訓練は何月?」 may be meant of any town."""
    NAMED = 2
    """It names somebody or something."""
    PERSONAL = 3
    """It speaks of the person's own life or time."""


NEED_ODDS: Final = {Wording.GENERAL: 0.3, Wording.OPEN: 3.0, Wording.NAMED: 10.0, Wording.PERSONAL: None}
"""The odds of each kind to need a memory, for `fusion.FusionPolicy.need`."""

_REQUEST: Final = re.compile(
    r"\b(?:(?:tell|give|show|help|teach|explain to|let|send|find|get) (?:me|us)"
    r"|how (?:do|can|could|should) (?:i|we)|where can (?:i|we)|(?:can|could|may) i (?:ask|get|have)"
    r"|i(?:['’]d| would) (?:like|love) (?:to know|you to)|i (?:need|want) you to|let['’]?s"
    r"|i(?:['’]m| am) (?:just )?(?:wondering|curious)|i (?:wonder|see|guess|think|understand|didn['’]?t know)"
    r"|ma[dk]es? (?:me|my day)|what i \w+)\b"
    r"|知りたい|わか(?:り|ら)|教えて(?:くれ|もら|ほし)",
    re.IGNORECASE,
)
"""What says "I" or "me" and speaks of nobody's life."""

_PERSONAL: Final = re.compile(
    r"\b(?:i|im|i['’](?:m|ve|ll|d)|ive|my|mine|me|myself|we|we['’](?:re|ve|ll|d)|our|ours|(?-i:us)|again|still|already"
    r"|today|tonight|tomorrow|yesterday|(?:last|next|this) (?:time|night|week|weekend|month|year|morning|evening"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|(?:as|than|the) (?:usual|always))\b"
    r"|私|わたし|僕|ぼく|俺|うち[のはにで]|[我わ]が家|自宅|自分|っけ|いつも|この前|このあいだ|この間|前回|以前"
    r"|昨日|今日|明日|明後日|今夜|今晩|今朝|[今来先毎][週月]|去年|来年|今度|今回|まだ|もう"
    r"|次(?:[はに]|の(?!文|コード|表|式|問|語|単語|中|うち|データ))"
    r"|だけど|んですけど|けど[、。]|んだよ|(?<!たく)さん(?!か)|先生|ちゃん|くん|君[のはが]|様[のはが]"
    r"|たい(?:[。、んので]|$)|ほしい|もらっ|くれ[るた]|親父|お袋|両親|父|母|妻|夫[のはがに]|[兄姉弟妹][のはがに]"
    r"|息子|娘|結局|だった|んでした",
    re.IGNORECASE,
)
_GIVEN: Final = re.compile(
    r"(?<!\w)'[^'\n]{12,}'|\"[^\"\n]{6,}\"|“[^“”\n]{6,}”|‘[^‘’\n]{12,}’|「[^「」\n]{9,}」|『[^『』\n]{9,}』"
)
"""A quoted sentence. A word or two in quotation marks are a name."""

_TASK: Final = re.compile(
    r"(?:^|[.!?:\n][ \t]?|\b(?:please|you|and) )(?:translate|summari[sz]e|proof-?read|rewrite|rephrase"
    r"|paraphrase|correct|classify|explain|define|describe|name|compare|convert|calculate|compute|simplify|solve|identify|extract"
    r"|turn this|fix the)\b|訳し|要約|校正|誤字|添削|[英日]\w{0,3}語に(?:して|直)|この文|次の文|以下の",
    re.IGNORECASE,
)
_WORLD: Final = re.compile(
    r"\b(?:differences? between|meaning of|definition of|history of|synonyms?|in general|generally"
    r"|who (?:first )?(?:\w+ed|wrote|built|won)|what (?:causes?|makes)"
    r"|why (?:is|are|do|does) (?!the\b|that\b|this\b|it\b)"
    r"|how (?:do|does|is|are|did|can) (?:one|you|people|an?|\w+s)|what (?:is|are|was|were) (?:an?|some) )\b"
    r"|とは|って(?:何|なに|どういう)|意味|違い|仕組み|しくみ|歴史|由来|語源|一般[にの的]|普通[は、]|説明して"
    r"|[挙あ]げて|比べて|比較し|例文|なぜ|どうして|発明|発見|作者|作曲者",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_KNOWN_SCRIPT: Final = re.compile(f"[A-Za-z\u3041-\u3096{KATAKANA}{HAN}]")


@dataclass(frozen=True, slots=True)
class Prose:
    """What a message says besides pasted code, and its terms.

    The terms are those that are no courtesy; all of them where it `is_courtesy` alone. Of a huge message only the
    beginning and the end are read.
    """

    text: str
    terms: Collection[str]
    is_courtesy: bool

    @classmethod
    def of(cls, text: str) -> Self:
        text = shortened(text)
        prose = without_code(text)
        terms = _subject_terms(prose)
        return cls(prose, terms or analyse(text).keys(), not terms)


Turns = Sequence[tuple[str, Prose]]
"""Those before a message, newest first, with their roles."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text that is searched for, read once: its terms, those of the turns before it, and its kind of script.

    `earlier` has the share in [0, 1] that each term keeps where the text itself says next to nothing. `wording` is that
    of a message to an assistant, of which nobody has said that it wants memories; None of a search.
    """

    text: str
    terms: Collection[str]
    is_unspaced: bool
    earlier: Mapping[str, float] = field(default_factory=dict)
    wording: Wording | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(text, analyse(text), is_unspaced(text))

    @classmethod
    def of_message(cls, text: str, turns: Iterable[tuple[str, str]] | None = None) -> Self:
        """Return the text of a message; `turns` are those before it, newest first as (role, text), None of a search."""
        prose = Prose.of(text)
        before = [(role, Prose.of(each)) for role, each in islice(turns or (), EARLIER_TURNS)]
        kind = None if turns is None else _wording(prose, before)
        return cls(text, prose.terms, is_unspaced(text), _earlier_terms(before), kind)


def _subject_terms(prose: str) -> Collection[str]:
    """Return the terms of a text that are no courtesy, perhaps none."""
    return analyse(_JAPANESE_COURTESIES.sub(" ", prose)).keys() - COURTESIES


def _earlier_terms(turns: Turns) -> dict[str, float]:
    """Return the terms of the turns with the share that each keeps."""
    terms: dict[str, float] = {}
    for place, (role, prose) in enumerate(turns):
        share = (USER_SHARE if role == "user" else ASSISTANT_SHARE) * FADING ** (place // 2)
        for term in prose.terms:
            terms[term] = max(share, terms.get(term, 0.0))
    return terms


def _wording(prose: Prose, turns: Turns) -> Wording:
    """Return the kind of a message: what it leaves open the user's turns tell, but not of work on a given text."""
    own = _own_wording(prose)
    if own is Wording.GENERAL and _TASK.search(_own_words(prose)):
        return own
    return max([own, *(_own_wording(each) for role, each in turns if role == "user")])


def _own_words(prose: Prose) -> str:
    return _GIVEN.sub(" ", prose.text)


def _own_wording(prose: Prose) -> Wording:
    words = _own_words(prose)
    if prose.is_courtesy or (words != prose.text and not _subject_terms(words)):
        return Wording.GENERAL
    if not _KNOWN_SCRIPT.search(words) or _PERSONAL.search(_REQUEST.sub(" ", words)):
        return Wording.PERSONAL
    if _TASK.search(words):
        return Wording.GENERAL
    if _NAME.search(words):
        return Wording.NAMED
    return Wording.GENERAL if _WORLD.search(words) else Wording.OPEN


def shortened(text: str) -> str:
    """Return the beginning and the end of a text longer than MAX_CHARACTERS."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"


def without_code(text: str) -> str:
    """Return a message without fenced blocks and runs of lines that look like code, logs or tables."""
    lines = _FENCED.sub("\n", text).split("\n")
    code = [False, *map(_looks_like_code, lines), False]
    runs = [one and other for one, other in pairwise(code)]
    kept = [
        line for line, before, after in zip(lines, runs[:-1], runs[1:], strict=True) if not (before or after)
    ]
    prose = "\n".join(kept)
    return prose if prose.strip() else text


def _looks_like_code(line: str) -> bool:
    bare = line.strip()
    if not bare:
        return False
    indented = line.startswith(("    ", "\t"))
    table = bare.count(",") >= CSV_COMMAS and " " not in bare.replace(", ", ",")
    symbols = len(_SYMBOL.findall(bare)) / len(bare)
    return bool(indented or table or symbols > SYMBOL_SHARE or _CODE_START.match(line))
